package serve_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// Issue 13: a service's key crosses no network in plain text.
func TestCheckKeyTransport(t *testing.T) {
	for name, c := range map[string]struct {
		tls     serve.TLS
		key     string
		addrs   []string
		refused bool
	}{
		"loopback":        {key: "k", addrs: []string{"127.0.0.1:7413", "localhost:7414,[::1]:7414"}},
		"another machine": {key: "k", addrs: []string{"planner:7413"}, refused: true},
		"one of a list":   {key: "k", addrs: []string{"127.0.0.1:1, 10.0.0.1:1"}, refused: true},
		"by DNS":          {key: "k", addrs: []string{"dns:///pools:7414"}, refused: true},
		"https":           {key: "k", addrs: []string{"https://planner:7413"}},
		"an authority":    {tls: serve.TLS{CA: "ca.pem"}, key: "k", addrs: []string{"planner:7413"}},
		"accepted":        {tls: serve.TLS{Insecure: true}, key: "k", addrs: []string{"planner:7413"}},
		"no key":          {addrs: []string{"planner:7413"}},
		"no address":      {key: "k"},
	} {
		err := c.tls.CheckKeyTransport(c.key, "--planner", c.addrs...)
		if (err != nil) != c.refused || err != nil && (!strings.Contains(err.Error(), "--planner") || !strings.Contains(err.Error(), "--insecure")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckBind(t *testing.T) {
	cases := []struct {
		addr          string
		authenticated bool
		tls           serve.TLS
		says          string // "": accepted
		logs          string
	}{
		{addr: "127.0.0.1:0"}, {addr: "localhost:80"}, {addr: "[::1]:80"}, {addr: "127.0.0.1:0", authenticated: true},
		{addr: ":80", says: "key file"}, {addr: "0.0.0.0:80", says: "key file"}, {addr: "[::]:80", says: "key file"},
		{addr: "192.168.1.1:80", says: "key file"}, {addr: "example.com:80", says: "key file"},
		{addr: ":80", tls: serve.TLS{Cert: "c"}, says: "key file"}, {addr: ":80", tls: serve.TLS{Insecure: true}, says: "key file"},
		{addr: ":80", authenticated: true, says: "--tls-cert and --tls-key"}, {addr: "10.0.0.1:80", authenticated: true, says: "--insecure"},
		{addr: ":80", authenticated: true, tls: serve.TLS{Cert: "c"}},
		{addr: "0.0.0.0:80", authenticated: true, tls: serve.TLS{Insecure: true}, logs: "can read and change all requests"},
		{addr: "localhost", authenticated: true, says: "host:port"}, {addr: "", says: "host:port"},
	}
	for _, c := range cases {
		var logged strings.Builder
		err := serve.CheckBind(c.addr, c.authenticated, c.tls, slog.New(slog.NewTextHandler(&logged, nil)))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("CheckBind(%q, %v, %+v) = %v, want %q", c.addr, c.authenticated, c.tls, err, c.says)
		}
		if (logged.Len() > 0) != (c.logs != "") || !strings.Contains(logged.String(), c.logs) {
			t.Errorf("CheckBind(%q, %v, %+v) logged %q, want %q", c.addr, c.authenticated, c.tls, logged.String(), c.logs)
		}
	}
}

// Issue 2, shown by 7: a port in use is a clear error with the next step.
func TestListenErrorsSayWhatToDo(t *testing.T) {
	first, err := serve.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	addr := first.Addr().String()
	for addr, wants := range map[string][]string{
		addr:                 {addr, "in use", "flag", "stop the process"},
		"203.0.113.7:0":      {"203.0.113.7", "not an address of this machine"},
		"127.0.0.1":          {"127.0.0.1", "host:port"},
		"127.0.0.1:99999":    {"99999", "host:port"},
		"no-host.invalid:80": {"no-host.invalid", "resolved"},
	} {
		lis, err := serve.Listen(addr)
		if err == nil {
			lis.Close()
			t.Errorf("Listen(%q) worked", addr)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Listen(%q): %q lacks %q", addr, err, want)
			}
		}
	}
}

func TestDialOverTCP(t *testing.T) {
	keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var seen identity.Principal
	s := &service{UnaryFn: func(ctx context.Context) (err error) {
		seen, err = identity.FromContext(ctx)
		return err
	}}
	srv, err := serve.New(serve.Options{Auth: keys})
	if err != nil {
		t.Fatal(err)
	}
	s.register(srv)
	var lis net.Listener
	if lis, err = serve.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, lis) }()

	conn, err := serve.Dial(lis.Addr().String(), keys.Ephemeral("svc", []identity.Role{identity.RoleService}))
	if err != nil {
		t.Fatal(err)
	}
	c := testgrpc.NewTestServiceClient(conn)
	big := &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: make([]byte, 4<<20)}}
	if _, err := c.UnaryCall(identity.OnBehalfOf(t.Context(), "alice"), big); err != nil || seen.Sub != "alice" {
		t.Errorf("call as %v: %v", seen, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := serve.Dial("\x00bad\n", ""); err == nil {
		t.Error("Dial accepted rubbish")
	}
}
