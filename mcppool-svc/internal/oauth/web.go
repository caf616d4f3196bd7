package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
)

const (
	// maxAnswer bounds what an authorization server, or an MCP server's metadata, may say.
	maxAnswer = 256 << 10
	// answerLimit is how long one request may take.
	answerLimit  = 15 * time.Second
	maxRedirects = 3
)

// web makes the requests of one login or renewal. Its client checks addresses when it dials.
type web struct{ client *http.Client }

// newWeb takes over a client; redirects are followed for reading alone, and never to where logins do not go.
func newWeb(client *http.Client) *web {
	own := *client
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		switch {
		case via[0].Method != http.MethodGet:
			return http.ErrUseLastResponse
		case len(via) > maxRedirects:
			return refused("it redirects more than %d times", maxRedirects)
		}
		_, err := parsePlace("where it redirects to", req.URL.String())
		return err
	}
	return &web{client: &own}
}

func (w *web) close() { w.client.CloseIdleConnections() }

// answer is a response that was read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// read decodes a JSON object; it returns false if there is none.
func (a *answer) read(to any) bool { return json.Unmarshal(a.body, to) == nil }

// get reads an address.
func (w *web) get(ctx context.Context, address string) (*answer, error) {
	return w.do(ctx, http.MethodGet, address, "", nil)
}

// post sends a body.
func (w *web) post(ctx context.Context, address, contentType, body string, header http.Header) (*answer, error) {
	h := http.Header{"Content-Type": {contentType}}
	for name, values := range header {
		h[name] = values
	}
	return w.do(ctx, http.MethodPost, address, body, h)
}

// do makes a request, to nowhere but where logins go.
func (w *web) do(ctx context.Context, method, address, body string, header http.Header) (*answer, error) {
	if _, err := parsePlace("an address for the login", address); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return nil, refused("the address %s cannot be used: %w", shown(address), err)
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Accept", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, unreachable(address, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, unreachable(address, err)
	case len(text) > maxAnswer:
		return nil, mcp.Errorf(mcp.TooLarge, "%s answered with more than %d KiB", shown(address), maxAnswer>>10)
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: text}, nil
}

// unreachable is a request that got no answer. An error of the dialler, or of the check of a redirect, is kept.
func unreachable(address string, err error) error {
	if known := mcp.Find(err); known != nil {
		e := *known
		e.Message = fmt.Sprintf("%s cannot be used: %s", shown(address), known.Message)
		return &e
	}
	var request *url.Error // its text has the whole address
	if errors.As(err, &request) {
		err = request.Err
	}
	return mcp.Errorf(mcp.Unavailable, "%s cannot be reached: %w", shown(address), err)
}

// unexpected is the error of an answer that cannot be used.
func unexpected(address string, a *answer) error {
	kind := mcp.Misconfigured
	if a.status >= http.StatusInternalServerError || a.status == http.StatusTooManyRequests {
		kind = mcp.Unavailable
	}
	return mcp.Errorf(kind, "%s answered HTTP %d%s", shown(address), a.status, errorText(a))
}

// errorText is the error in an answer (RFC 6749, 5.2), for people.
func errorText(a *answer) string {
	var e struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if !a.read(&e) || e.Error == "" {
		return ""
	}
	return ": " + quoteError(e.Error, e.Description)
}

// quoteError is an error that a server sent, bounded and quoted.
func quoteError(code, description string) string {
	text := fmt.Sprintf("%.100q", code)
	if description != "" {
		text += fmt.Sprintf(" (%.300q)", description)
	}
	return text
}

// shown is an address without what may be secret in it.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

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
