package oauth

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const callbackURL = "http://127.0.0.1:4321/callback"

// rig is a Logins with an MCP server and its authorization server.
type rig struct {
	t      *testing.T
	logins *Logins
	auth   *mcptest.Authority
	web    *mcptest.Resource
	server *registry.Server
	ahead  atomic.Int64 // nanoseconds by which the clock is ahead
	log    *bytes.Buffer
	store  store.Store
}

// mcpServer stands for an MCP server behind the guard.
var mcpServer = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

func newRig(t *testing.T, cfg Config, sw mcptest.Switches, g mcptest.Guard) *rig {
	t.Helper()
	r := &rig{t: t, auth: mcptest.NewAuthority(t, sw), log: &bytes.Buffer{}}
	r.web = mcptest.Protect(t, r.auth, mcpServer, g)
	r.server = (&registry.Server{UID: "uid", ID: "web", HTTP: &registry.HTTP{URL: r.web.URL}, ByOperator: true}).Seal()
	st, err := store.Open("")
	if err != nil {
		t.Fatal(err)
	}
	r.store = st
	r.logins = r.openLogins(cfg)
	return r
}

func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

func (r *rig) openLogins(cfg Config) *Logins {
	r.t.Helper()
	if cfg.Box == nil {
		cfg.Box = box(r.t, 1)
	}
	l, err := New(cfg, Deps{
		Store: r.store, Now: r.now, Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Client: func(*registry.Server) *http.Client { return &http.Client{Transport: &http.Transport{}} },
		Secret: func(_ *registry.Server, value string) (string, error) { return strings.TrimPrefix(value, "ref:"), nil },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return l
}

// configure changes the server's settings.
func (r *rig) configure(o *registry.OAuth) {
	s := r.server.Clone()
	s.HTTP.OAuth = o
	r.server = s.Seal()
}

func (r *rig) start(user string) (Started, error) {
	return r.logins.Start(r.t.Context(), r.server, user, callbackURL)
}

// answer consents in the browser and returns what comes back.
func (r *rig) answer(s Started) Answer {
	r.t.Helper()
	q := r.auth.Browse(s.URL)
	return Answer{State: q.Get("state"), Code: q.Get("code"), Iss: q.Get("iss"), Error: q.Get("error"), Description: q.Get("error_description")}
}

func (r *rig) login(user string) Finished {
	r.t.Helper()
	f, err := r.tryLogin(user)
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

func (r *rig) tryLogin(user string) (Finished, error) {
	r.t.Helper()
	s, err := r.start(user)
	if err != nil {
		return Finished{}, err
	}
	return r.logins.Finish(r.t.Context(), user, r.answer(s))
}

// request makes a request to the MCP server as a connection does: if the token is refused, once more with a new one.
func (r *rig) request(user, method string) (int, error) {
	r.t.Helper()
	source := r.logins.For(r.server, user)
	token, err := source.Token(r.t.Context())
	if err != nil {
		return 0, err
	}
	resp := r.send(method, token)
	if resp.StatusCode == http.StatusOK {
		return resp.StatusCode, nil
	}
	next, err := source.Refused(r.t.Context(), token, false, resp)
	if next == "" || err != nil {
		return resp.StatusCode, err
	}
	if resp = r.send(method, next); resp.StatusCode != http.StatusOK {
		_, err = source.Refused(r.t.Context(), next, true, resp)
	}
	return resp.StatusCode, err
}

func (r *rig) send(method, token string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.web.URL, strings.NewReader(`{"method":"`+method+`"}`))
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

// works fails unless a user's requests get through.
func (r *rig) works(user string) {
	r.t.Helper()
	if status, err := r.request(user, "tools/list"); status != http.StatusOK || err != nil {
		r.t.Fatalf("request of %s: %d, %v", user, status, err)
	}
}

// asked is the last authorization request, or nil.
func (r *rig) asked() (q url.Values) {
	r.auth.With(func(a *mcptest.Authority) {
		if len(a.Asked) > 0 {
			q = a.Asked[len(a.Asked)-1]
		}
	})
	return q
}

func (r *rig) registrations() (n int) {
	r.auth.With(func(a *mcptest.Authority) { n = len(a.Register) })
	return n
}

func (r *rig) tokenRequests() (list []url.Values) {
	r.auth.With(func(a *mcptest.Authority) { list = append(list, a.Requests...) })
	return list
}

// wantKind fails unless an error is of a kind and holds a text.
func wantKind(t *testing.T, err error, kind mcp.Kind, text string) {
	t.Helper()
	if err == nil || mcp.As(err).Kind != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("error = %v (kind %d), want kind %d with %q", err, kindOf(err), kind, text)
	}
}

func kindOf(err error) mcp.Kind {
	if err == nil {
		return -1
	}
	return mcp.As(err).Kind
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
