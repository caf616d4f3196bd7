package console

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"

	"pawl.dev/gateway/internal/problem"
	"pawl.dev/gateway/internal/rest"
)

// Path is the path of the page.
const Path = "/v1/mcpLogins:callback"

var (
	//go:embed page.html
	source string
	//go:embed page.css
	style string
)

// maxQuery bounds the query in bytes.
const maxQuery = 32 << 10

// Handler serves the page.
type Handler struct {
	pool   mcppoolv1.McpPoolServiceClient
	page   *template.Template
	policy string
}

// New returns the handler.
func New(pool grpc.ClientConnInterface) (*Handler, error) {
	page, err := template.New("page").Parse(source)
	if err != nil {
		return nil, fmt.Errorf("read the page for logins: %w", err)
	}
	sum := sha256.Sum256([]byte(style))
	return &Handler{
		pool: mcppoolv1.NewMcpPoolServiceClient(pool), page: page,
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}, nil
}

// view is the data of the page's template.
type view struct {
	Title   string
	Text    []string
	Command string
	Style   template.CSS
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		problem.MethodNotAllowed(w, r, http.MethodGet)
		return
	}
	req, err := read(r.URL.RawQuery)
	if err != nil {
		h.show(w, http.StatusBadRequest, failed(err))
		return
	}
	done, err := h.pool.FinishMcpLogin(rest.NewContext(r.Context(), r.Header), req)
	switch {
	case err == nil:
		h.show(w, http.StatusOK, view{Title: "Logged in to " + done.GetMcpId(), Text: []string{"You can close this page."}})
	case errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED:
		h.show(w, http.StatusOK, byHand)
	default:
		h.show(w, problem.From(err).Status, failed(err))
	}
}

// read returns the answer of an authorization server in a query (RFC 6749, 4.1.2; RFC 9207).
func read(query string) (*mcppoolv1.FinishMcpLoginRequest, error) {
	values, err := url.ParseQuery(query)
	if err != nil || len(query) > maxQuery {
		return nil, badAnswer("the address of this page cannot be read or is too long")
	}
	req := &mcppoolv1.FinishMcpLoginRequest{}
	for name, to := range map[string]*string{
		"state": &req.State, "code": &req.Code, "iss": &req.Iss, "error": &req.Error, "error_description": &req.ErrorDescription,
	} {
		if len(values[name]) > 1 {
			return nil, badAnswer("the address of this page has %q more than once", name)
		}
		*to = strings.ToValidUTF8(values.Get(name), "�")
	}
	if req.GetState() == "" {
		return nil, badAnswer("the address of this page has no state, so it belongs to no login")
	}
	return req, nil
}

func badAnswer(format string, args ...any) error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
}

// byHand is the page if an API key is needed, which a redirected browser does not send.
var byHand = view{
	Title: "One more step",
	Text: []string{
		"Pawl needs an API key, which the browser does not send. Copy the address of this page from the address bar within the next minutes, and run the following command with the key " +
			"that you began the login with. It asks for the address:",
	},
	Command: "pawl mcp login --finish -",
}

func failed(err error) view {
	return view{Title: "Not logged in", Text: []string{errs.From(err).Message, "Begin again with pawl mcp login, or where you began this login."}}
}

func (h *Handler) show(w http.ResponseWriter, status int, v view) {
	v.Style = template.CSS(style) //nolint:gosec // our own, embedded
	var page bytes.Buffer
	if err := h.page.Execute(&page, v); err != nil {
		problem.Write(w, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", h.policy)
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes())
}
