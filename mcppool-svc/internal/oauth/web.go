package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/loopback"
	"pawl.dev/services/outbound"
)

const (
	// maxResponse bounds a response, in bytes.
	maxResponse = 256 << 10
	// requestLimit is how long one request may take.
	requestLimit = 15 * time.Second
	maxRedirects = 3
)

// web makes the requests of one login or renewal. Its client checks addresses when it dials.
type web struct{ client *http.Client }

// newWeb returns a web that uses a copy of client. It follows redirects of GET requests only, and only to addresses that parseLoginURL accepts.
func newWeb(client *http.Client) *web {
	checked := *client
	checked.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		switch {
		case via[0].Method != http.MethodGet:
			return http.ErrUseLastResponse
		case len(via) > maxRedirects:
			return refused("it redirects more than %d times", maxRedirects)
		}
		_, err := parseLoginURL("the target of the redirect", req.URL.String())
		return err
	}
	return &web{client: &checked}
}

func (w *web) close() { w.client.CloseIdleConnections() }

// httpResponse is a response whose body was read.
type httpResponse struct {
	status int
	header http.Header
	body   []byte
}

// read decodes the body as JSON; it returns false if that fails.
func (a *httpResponse) read(to any) bool { return json.Unmarshal(a.body, to) == nil }

// get makes a GET request.
func (w *web) get(ctx context.Context, address string) (*httpResponse, error) {
	return w.do(ctx, http.MethodGet, address, "", nil)
}

// post makes a POST request.
func (w *web) post(ctx context.Context, address, contentType, body string, header http.Header) (*httpResponse, error) {
	h := http.Header{"Content-Type": {contentType}}
	for name, values := range header {
		h[name] = values
	}
	return w.do(ctx, http.MethodPost, address, body, h)
}

// do makes a request to an address that parseLoginURL accepts.
func (w *web) do(ctx context.Context, method, address, body string, header http.Header) (*httpResponse, error) {
	if _, err := parseLoginURL("an address for the login", address); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return nil, refused("the address %s cannot be used: %w", displayURL(address), err)
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
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	switch {
	case err != nil:
		return nil, unreachable(address, err)
	case len(text) > maxResponse:
		return nil, mcp.Errorf(mcp.TooLarge, "%s answered with more than %d KiB", displayURL(address), maxResponse>>10)
	}
	return &httpResponse{status: resp.StatusCode, header: resp.Header, body: text}, nil
}

// unreachable returns the error of a request that got no complete response. It keeps the kind of an error of the dialler or of the check of a redirect.
func unreachable(address string, err error) error {
	if known := mcp.Find(err); known != nil {
		e := *known
		e.Message = fmt.Sprintf("%s cannot be used: %s", displayURL(address), known.Message)
		return &e
	}
	var request *url.Error // its text has the whole address
	if errors.As(err, &request) {
		err = request.Err
	}
	return mcp.Errorf(mcp.Unavailable, "%s cannot be reached: %w", displayURL(address), err)
}

// unexpected returns the error for a response whose status is not the expected one.
func unexpected(address string, a *httpResponse) error {
	kind := mcp.Misconfigured
	if a.status >= http.StatusInternalServerError || a.status == http.StatusTooManyRequests {
		kind = mcp.Unavailable
	}
	return mcp.Errorf(kind, "%s answered HTTP %d%s", displayURL(address), a.status, errorText(a))
}

// errorText returns the error in a response (RFC 6749, 5.2), for people.
func errorText(a *httpResponse) string {
	var e struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if !a.read(&e) || e.Error == "" {
		return ""
	}
	return ": " + quoteError(e.Error, e.Description)
}

// quoteError returns an error that a server sent, cut off and quoted.
func quoteError(code, description string) string {
	text := fmt.Sprintf("%.100q", code)
	if description != "" {
		text += fmt.Sprintf(" (%.300q)", description)
	}
	return text
}

// displayURL returns the scheme and host of an address. The other parts may be secret: addresses of metadata contain the server's path.
func displayURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	return outbound.Place(u)
}

// maxURL bounds an address that a server names.
const maxURL = 4096

// refused returns the Misconfigured error for an unusable value in a server's metadata, a registration or a flag.
func refused(format string, args ...any) error {
	return mcp.Errorf(mcp.Misconfigured, format, args...)
}

// parseLoginURL parses an address to which tokens, codes or secrets are sent, or that leads to such an address. It must be https, or http on
// this machine. what names the address in errors.
func parseLoginURL(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL || err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.Fragment != "":
		return nil, refused("%s (%.200s) is not an address that can be used: it must be absolute, without user, password and fragment, and have at most %d bytes", what, displayURL(text), maxURL)
	case u.Scheme == "https", u.Scheme == "http" && loopback.Is(u.Hostname()):
		return u, nil
	default:
		return nil, refused("%s is at %.200s; logins must use https, except for servers on this machine", what, displayURL(text))
	}
}

// resourceID returns the address of an MCP server as its resource identifier (RFC 8707): without the parts that may be secret.
func resourceID(u *url.URL) string {
	c := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}
	if c.Path == "/" {
		c.Path, c.RawPath = "", ""
	}
	return c.String()
}

// origin returns the scheme and host of an address.
func origin(u *url.URL) *url.URL {
	return &url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host)}
}

// wellKnown returns an address with a well-known name between host and path (RFC 8615, RFC 8414, RFC 9728).
func wellKnown(u *url.URL, name string) string {
	return origin(u).JoinPath("/.well-known/"+name, strings.TrimSuffix(u.EscapedPath(), "/")).String()
}

// checkResource returns an error unless a resource identifier is an MCP server's own address, or a path above it.
func checkResource(resource string, server *url.URL) error {
	r, err := parseLoginURL("the resource in the metadata of the MCP server", resource)
	if err != nil {
		return err
	}
	parent := strings.TrimSuffix(r.EscapedPath(), "/")
	path := server.EscapedPath()
	sameOrigin := r.Scheme == strings.ToLower(server.Scheme) && strings.EqualFold(r.Hostname(), server.Hostname()) && outbound.PortOf(r) == outbound.PortOf(server) && r.RawQuery == ""
	if !sameOrigin || path != parent && !strings.HasPrefix(path, parent+"/") && strings.TrimSuffix(path, "/") != parent {
		return refused("the MCP server's metadata are for another address, at %.200s: a login would be for another server than that at %s", displayURL(resource), outbound.Place(server))
	}
	return nil
}

// chooseRedirect returns the address to which the browser returns with a code: the caller's, which it checks, else the operator's.
func chooseRedirect(wanted, configured string) (string, error) {
	wanted = cmp.Or(wanted, configured)
	if wanted == "" {
		return "", fmt.Errorf("%w: it is empty; name the address to which the browser returns, such as http://127.0.0.1:PORT/…, or let the operator set --login-redirect-uri", ErrRedirect)
	}
	if wanted == configured {
		return wanted, nil
	}
	u, err := url.Parse(wanted)
	if err != nil || u.Scheme != "http" || !loopback.Is(u.Hostname()) || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(wanted) > maxURL {
		return "", fmt.Errorf("%w: use http://127.0.0.1, http://[::1] or http://localhost, with any port and path, or the address that the operator set with --login-redirect-uri", ErrRedirect)
	}
	return wanted, nil
}

// CheckRedirect checks the redirect address that an operator sets; it may be empty.
func CheckRedirect(text string) error {
	if text == "" {
		return nil
	}
	_, err := parseLoginURL("--login-redirect-uri", text)
	return err
}

// CheckDocument checks the address of a client's metadata document that an operator sets; it may be empty.
func CheckDocument(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Path == "" || u.Path == "/" || u.User != nil || u.Fragment != "" || len(text) > 2000 {
		return refused("--login-client-metadata is %.200q; give an https address with a path, without user, password and fragment, of at most 2000 bytes", text)
	}
	return nil
}
