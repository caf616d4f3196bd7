package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

func ours() settings {
	return settings{HTTP: "127.0.0.1:0", Executor: "127.0.0.1:1", Pool: "127.0.0.1:1", Planner: "127.0.0.1:1"}
}

// TestRunStops: a stop that was asked for is no error, whatever is not there.
func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, ours()); err != nil {
		t.Error(err)
	}
}

// TestRunSaysWhatIsWrong: an error names the fault and what to do (issue 2, shown by 7).
func TestRunSaysWhatIsWrong(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	tests := map[string]struct {
		change func(*settings)
		want   string
	}{
		"open to the network without keys": {func(s *settings) { s.HTTP = "0.0.0.0:0" }, "refusing to listen"},
		"a certificate without its key":    {func(s *settings) { s.TLS.Cert = "cert.pem" }, "given together"},
		"an address in use":                {func(s *settings) { s.HTTP = taken.Addr().String() }, "in use"},
		"no address":                       {func(s *settings) { s.HTTP = "7410" }, "host:port"},
		"an origin that is none":           {func(s *settings) { s.AllowOrigin = []string{"*"} }, "--allow-origin"},
		"a service without an address":     {func(s *settings) { s.Pool = "\x00" }, "host:port"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := ours()
			tt.change(&s)
			if err := run(t.Context(), s); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestOneOfTwoPoolsIsDead: the gateway stays ready and reaches the other one.
func TestOneOfTwoPoolsIsDead(t *testing.T) {
	live := startPool(t)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.Close()
	s := ours()
	s.Executor, s.Planner, s.Pool = live, live, dead.Addr().String()+","+live
	g, conns, err := open(s, nil, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conns.Close() }()
	for _, token := range []string{"", "a", "b", "c", "d"} { // by their hashes, some are the dead one's
		for path, want := range map[string]string{"/readyz": `"ready":true`, "/v1/mcpServers": `"nextPageToken":"live"`} {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			if g.Handler().ServeHTTP(w, r); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s as %q: %d %s", path, token, w.Code, w.Body)
			}
		}
	}
}

type fakePool struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
}

func (fakePool) ListMcpServers(context.Context, *mcppoolv1.ListMcpServersRequest) (*mcppoolv1.ListMcpServersResponse, error) {
	return &mcppoolv1.ListMcpServersResponse{NextPageToken: "live"}, nil
}

// startPool serves a pool and returns its address.
func startPool(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	mcppoolv1.RegisterMcpPoolServiceServer(srv, fakePool{})
	done := make(chan error, 1)
	go func() { done <- srv.Serve(lis) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

// TestRunWithKeys may listen everywhere if the risk is accepted.
func TestRunWithKeys(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := ours()
	s.HTTP, s.Authenticated = ":0", true
	if err := run(ctx, s); err == nil || !strings.Contains(err.Error(), "without TLS") {
		t.Errorf("without TLS: %v", err)
	}
	s.TLS.Insecure = true
	if err := run(ctx, s); err != nil {
		t.Error(err)
	}
}
