package console_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"pawl.dev/gateway/internal/console"
	"pawl.dev/gateway/internal/rest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/inproc"
)

// pool is a pool that ends logins as a test wants.
type pool struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
	FinishFn func(*mcppoolv1.FinishMcpLoginRequest) (*mcppoolv1.FinishMcpLoginResponse, error)
	calls    int
	keys     []string
}

func (p *pool) FinishMcpLogin(ctx context.Context, r *mcppoolv1.FinishMcpLoginRequest) (*mcppoolv1.FinishMcpLoginResponse, error) {
	p.calls++
	p.keys = metadata.ValueFromIncomingContext(ctx, "authorization")
	return p.FinishFn(r)
}

func newPage(t *testing.T) (*pool, http.Handler) {
	t.Helper()
	p, conn := &pool{}, inproc.New(nil, nil)
	mcppoolv1.RegisterMcpPoolServiceServer(conn, p)
	h, err := console.New(rest.Conn(conn, "pool", false, slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	return p, h
}

func land(t *testing.T, h http.Handler, method, query string, header http.Header) (int, http.Header, string) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, console.Path+query, nil)
	for name, values := range header {
		req.Header[name] = values
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Code, w.Header(), w.Body.String()
}

// The page ends the login with the browser's parameters, and shows none of them.
func TestLoginPage(t *testing.T) {
	p, h := newPage(t)
	var got *mcppoolv1.FinishMcpLoginRequest
	p.FinishFn = func(r *mcppoolv1.FinishMcpLoginRequest) (*mcppoolv1.FinishMcpLoginResponse, error) {
		got = r
		return &mcppoolv1.FinishMcpLoginResponse{McpId: "<web>"}, nil
	}
	status, header, body := land(t, h, "GET", "?state=the-state&code=the-code&iss=https%3A%2F%2Fauth.example&other=x", http.Header{"Authorization": {"Bearer key"}})
	if status != 200 || !strings.Contains(body, "Logged in to &lt;web&gt;") {
		t.Errorf("%d\n%s", status, body)
	}
	if got.GetState() != "the-state" || got.GetCode() != "the-code" || got.GetIss() != "https://auth.example" {
		t.Errorf("the pool was told %v", got)
	}
	if len(p.keys) != 1 || p.keys[0] != "Bearer key" {
		t.Errorf("it was asked with %q", p.keys)
	}
	if strings.Contains(body, "the-code") || strings.Contains(body, "the-state") {
		t.Errorf("the page shows what is secret:\n%s", body)
	}
	policy := header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %s", policy, want)
		}
	}
	if header.Get("Cache-Control") != "no-store" || strings.Contains(policy, "unsafe") {
		t.Errorf("headers %v", header)
	}
	if strings.Contains(body, "<script") || strings.Contains(body, "http://") || strings.Contains(body, "src=") {
		t.Errorf("the page takes something from elsewhere:\n%s", body)
	}
}

func TestLoginPageFailures(t *testing.T) {
	p, h := newPage(t)
	refuse := func(code codes.Code, reason commonv1.ErrorReason, text string) {
		p.FinishFn = func(*mcppoolv1.FinishMcpLoginRequest) (*mcppoolv1.FinishMcpLoginResponse, error) {
			return nil, errs.New(code, reason, "%s", text)
		}
	}
	refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED, "<b>denied</b>")
	if status, _, body := land(t, h, "GET", "?state=s&error=access_denied", nil); status != 409 || !strings.Contains(body, "&lt;b&gt;denied") || strings.Contains(body, "<b>") {
		t.Errorf("%d\n%s", status, body)
	}
	// A browser has no key: the person continues on the command line, which has one.
	refuse(codes.Unauthenticated, commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, "no key")
	if status, _, body := land(t, h, "GET", "?state=s&code=c", nil); status != 200 || !strings.Contains(body, "pawl mcp login --finish") {
		t.Errorf("%d\n%s", status, body)
	}
	before := p.calls
	for query, want := range map[string]string{
		"?code=c": "no state", "?state=a&state=b&code=c": "more than once", "?state=%zz": "cannot be read",
		"?state=s&code=" + strings.Repeat("x", 40<<10): "cannot be read",
	} {
		if status, _, body := land(t, h, "GET", query, nil); status != 400 || !strings.Contains(body, want) {
			t.Errorf("%.40s: %d\n%s", query, status, body)
		}
	}
	for _, method := range []string{"HEAD", "POST"} { // a probe, and a form
		if status, _, _ := land(t, h, method, "?state=s&code=c", nil); status != 405 {
			t.Errorf("%s: %d", method, status)
		}
	}
	if p.calls != before {
		t.Errorf("the pool was asked %d times", p.calls-before)
	}
}
