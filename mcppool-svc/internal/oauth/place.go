package oauth

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"pawl.dev/mcppool-svc/internal/mcp"
)

// maxURL bounds an address that a server names.
const maxURL = 4096

// refused is the error of something that a server names and that cannot be used.
func refused(format string, args ...any) error {
	return mcp.Errorf(mcp.Misconfigured, format, args...)
}

// parsePlace reads an address that gets tokens, codes or secrets, or names one that does: https, or http on this machine.
func parsePlace(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL || err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.Fragment != "":
		return nil, refused("%s is %.200q, which is not an address that can be used", what, text)
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return u, nil
	default:
		return nil, refused("%s is %.200q; logins go over https alone, but for servers on this machine", what, text)
	}
}

// isLoopback reports whether a host of a URL is this machine.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// canonical is the address of an MCP server as its resource identifier (RFC 8707): without what may be secret in it.
func canonical(u *url.URL) string {
	c := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}
	if c.Path == "/" {
		c.Path, c.RawPath = "", ""
	}
	return c.String()
}

// origin is the part of an address before its path.
func origin(u *url.URL) *url.URL {
	return &url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host)}
}

// wellKnown inserts a well-known name between host and path (RFC 8615, RFC 8414, RFC 9728).
func wellKnown(u *url.URL, name string) string {
	return origin(u).JoinPath("/.well-known/"+name, strings.TrimSuffix(u.EscapedPath(), "/")).String()
}

// covers reports whether a resource identifier stands for an MCP server: its own address, or one above it.
func covers(resource string, server *url.URL) error {
	r, err := parsePlace("the resource in the metadata of the MCP server", resource)
	if err != nil {
		return err
	}
	above := strings.TrimSuffix(r.EscapedPath(), "/")
	path := server.EscapedPath()
	same := r.Scheme == strings.ToLower(server.Scheme) && strings.EqualFold(withPort(r), withPort(server)) && r.RawQuery == ""
	if !same || path != above && !strings.HasPrefix(path, above+"/") && strings.TrimSuffix(path, "/") != above {
		return refused("the MCP server's metadata are for %.200q, not for %s: a login would be for another server", resource, canonical(server))
	}
	return nil
}

func withPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// chooseRedirect checks the address that a caller wants browsers to be sent to with a code, or takes the operator's, which may be empty.
func chooseRedirect(wanted, configured string) (string, error) {
	wanted = cmp.Or(wanted, configured)
	if wanted == "" {
		return "", fmt.Errorf("%w: say where the browser is to be sent, to http://127.0.0.1:PORT/…, or let the operator set --login-redirect-uri", ErrRedirect)
	}
	if wanted == configured {
		return wanted, nil
	}
	u, err := url.Parse(wanted)
	if err != nil || u.Scheme != "http" || !isLoopback(u.Hostname()) || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(wanted) > maxURL {
		return "", fmt.Errorf("%w: it may be http://127.0.0.1, http://[::1] or http://localhost, with any port and path, or what the operator set with --login-redirect-uri", ErrRedirect)
	}
	return wanted, nil
}

// CheckRedirect says what is wrong with a redirect address that an operator sets.
func CheckRedirect(text string) error {
	if text == "" {
		return nil
	}
	_, err := parsePlace("--login-redirect-uri", text)
	return err
}

// CheckDocument says what is wrong with the address of a client's metadata document that an operator sets.
func CheckDocument(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Path == "" || u.Path == "/" || u.User != nil || u.Fragment != "" || len(text) > 2000 {
		return refused("--login-client-metadata is %.200q; give an https address with a path", text)
	}
	return nil
}
