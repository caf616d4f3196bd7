package oauth

import (
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
