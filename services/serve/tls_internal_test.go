package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/services/identity"
)

// lines is a log that several goroutines write.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// store writes PEM to a file and returns its path. Like tools that renew certificates, it replaces the file.
func store(t *testing.T, path, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// issue writes a certificate for the template, its key and the authority into a folder.
func (a *authority) issue(t *testing.T, dir string, template x509.Certificate) TLS {
	t.Helper()
	template.SerialNumber = a.cert.SerialNumber
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	cert, key := a.sign(t, &template)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return TLS{
		Cert: store(t, filepath.Join(dir, "cert.pem"), "CERTIFICATE", cert.Raw),
		Key:  store(t, filepath.Join(dir, "key.pem"), "PRIVATE KEY", der),
		CA:   store(t, filepath.Join(dir, "ca.pem"), "CERTIFICATE", a.cert.Raw),
	}
}

func (t TLS) mustOpen(tb testing.TB, log *slog.Logger) *Certificates {
	tb.Helper()
	c, err := t.Open(log)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// startTLS serves health with these certificates, until stop or the end of the test.
func startTLS(t *testing.T, certs *Certificates) (addr string, stop func()) {
	t.Helper()
	keys, err := identity.OpenKeyFile(filepath.Join(t.TempDir(), "keys.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	srv, err := New(Options{Auth: keys, Certificates: certs})
	if err != nil {
		t.Fatal(err)
	}
	lis, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, lis) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return lis.Addr().String(), stop
}

// check asks for the health over a new connection.
func check(t *testing.T, certs *Certificates, addr string) error {
	t.Helper()
	conn, err := certs.Dial(addr, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

var onLoopback = x509.Certificate{DNSNames: []string{"pool"}, IPAddresses: ips("127.0.0.1")}

// A caller needs a certificate from the right authority, with a name that is allowed, that has not expired (issue 13). The caller learns the kind
// of the fault, and the server's log has the reason.
func TestMutualTLS(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	server := a.issue(t, t.TempDir(), onLoopback)
	client := func(signer *authority, template x509.Certificate) *Certificates {
		flags := signer.issue(t, t.TempDir(), template)
		flags.CA = server.CA
		return flags.mustOpen(t, nil)
	}
	executor := x509.Certificate{DNSNames: []string{"x", "Executor"}}
	gateway := x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "pawl", Path: "/gateway"}}}
	late := client(a, executor)
	cert, key := a.sign(t, &x509.Certificate{SerialNumber: a.cert.SerialNumber, DNSNames: executor.DNSNames, NotAfter: time.Now().Add(-time.Minute)})
	late.pair.Certificate, late.pair.PrivateKey, late.pair.Leaf = [][]byte{cert.Raw}, key, nil // it expired after Open
	names := []string{"executor", "spiffe://pawl/gateway"}
	for name, tc := range map[string]struct {
		names  []string
		client *Certificates
		says   string // "": accepted
		logs   string // "": nothing
	}{
		"a name that is allowed": {names, client(a, executor), "", ""},
		"a URI that is allowed":  {names, client(a, gateway), "", ""},
		"any name":               {nil, client(a, x509.Certificate{}), "", ""},
		"another name":           {names, client(a, x509.Certificate{DNSNames: []string{"executor.evil", "*"}}), "bad certificate", `--tls-client-name allows [\"executor\"`},
		"no names":               {names, client(a, x509.Certificate{}), "bad certificate", "--tls-client-name"},
		"another authority":      {names, client(other, executor), "unknown certificate authority", "unknown authority"},
		"expired":                {names, late, "expired certificate", "expired"},
		"no certificate":         {nil, TLS{CA: server.CA}.mustOpen(t, nil), "certificate required", "didn't provide a certificate"},
		"without TLS":            {nil, nil, "error reading server preface", "does not look like a TLS handshake"},
		"another server":         {nil, other.issue(t, t.TempDir(), gateway).mustOpen(t, nil), "unknown authority", "bad certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			var log lines
			flags := server
			flags.ClientNames = tc.names
			addr, stop := startTLS(t, flags.mustOpen(t, slog.New(slog.NewTextHandler(&log, nil))))
			if err := check(t, tc.client, addr); (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want %q", err, tc.says)
			}
			stop()
			if got := log.String(); (got != "") != (tc.logs != "") || !strings.Contains(got, tc.logs) {
				t.Errorf("log %q, want %q", got, tc.logs)
			}
		})
	}
}

// Certificates, and the authorities of both sides, are replaced while a stream is open; broken files change nothing (issue 13, shown by 4).
func TestCertificatesAreReloaded(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	serverDir, clientDir := t.TempDir(), t.TempDir()
	var log lines
	server := before.issue(t, serverDir, onLoopback).mustOpen(t, slog.New(slog.NewTextHandler(&log, nil)))
	client := before.issue(t, clientDir, onLoopback).mustOpen(t, nil)
	addr, _ := startTLS(t, server)
	due := func() { // instead of waiting for readFilesEvery
		for _, c := range []*Certificates{server, client} {
			c.mu.Lock()
			c.checked = time.Time{}
			c.mu.Unlock()
		}
	}
	conn, err := client.Dial(addr, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{server.flags.Cert, server.flags.Key, server.flags.CA} {
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("-----BEGIN RUBBISH"), 0o600); err != nil {
			t.Fatal(err)
		}
		n := strings.Count(log.String(), "cannot be used")
		for range 3 {
			due()
			if err := check(t, client, addr); err != nil {
				t.Errorf("with a broken %s: %v", file, err)
			}
		}
		if got := strings.Count(log.String(), "cannot be used") - n; got != 1 {
			t.Errorf("a broken %s is logged %d times: %s", file, got, &log)
		}
		if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	after.issue(t, serverDir, onLoopback)
	due()
	if err := check(t, client, addr); err == nil {
		t.Error("the client trusts an authority that it does not have yet")
	}
	after.issue(t, clientDir, onLoopback)
	due()
	if err := check(t, client, addr); err != nil {
		t.Errorf("with the new certificates on both sides: %v", err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("over the connection from before: %v", err)
	}
	old := before.issue(t, t.TempDir(), onLoopback)
	old.CA = client.flags.CA
	if err := check(t, old.mustOpen(t, nil), addr); err == nil {
		t.Error("a certificate from the previous authority is accepted")
	}
}

func TestUnusableCertificates(t *testing.T) {
	a := newAuthority(t)
	good := a.issue(t, t.TempDir(), onLoopback)
	expired := a.issue(t, t.TempDir(), x509.Certificate{NotAfter: time.Now().Add(-time.Hour)})
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (TLS{Cert: good.Cert, Key: good.Key, CA: empty}).Open(nil); err == nil {
		t.Error("an empty file of authorities would accept every caller")
	}
	for says, flags := range map[string]TLS{
		"given together":               {Cert: good.Cert},
		"must be given":                {Key: good.Key},
		"--tls-client-name needs":      {CA: good.CA, ClientNames: []string{"x"}},
		"none.pem":                     {Cert: "none.pem", Key: good.Key},
		"does not match":               {Cert: good.Cert, Key: expired.Key},
		"has expired at":               {Cert: expired.Cert, Key: expired.Key},
		"read the TLS files":           {CA: "none.pem"},
		"no certificate in PEM format": {CA: good.Key},
	} {
		if _, err := flags.Open(nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", flags, err, says)
		}
	}
	if c, err := (TLS{Insecure: true}).Open(nil); c != nil || err != nil {
		t.Errorf("without files: %v, %v", c, err)
	}
	if _, err := New(Options{Auth: identity.Local(), Certificates: TLS{CA: good.CA}.mustOpen(t, nil)}); err == nil || !strings.Contains(err.Error(), "--tls-cert") {
		t.Errorf("a server without a certificate: %v", err)
	}
	if _, err := New(Options{Auth: identity.Local(), Certificates: TLS{CA: good.CA, ClientAuth: noClientAuth}.mustOpen(t, nil)}); err != nil {
		t.Errorf("a server without TLS that only trusts others: %v", err)
	}
	if _, err := (TLS{Cert: good.Cert, Key: good.Key, CA: good.CA, ClientAuth: noClientAuth, ClientNames: []string{"x"}}).Open(nil); err == nil {
		t.Error("names of callers without certificates are taken")
	}
	oneWay := good
	oneWay.ClientAuth = noClientAuth
	addr, stop := startTLS(t, oneWay.mustOpen(t, nil))
	defer stop()
	if err := check(t, TLS{CA: good.CA}.mustOpen(t, nil), addr); err != nil {
		t.Errorf("TLS in one direction: %v", err)
	}
}

// Without --tls-ca an address that begins with https:// is verified with the authorities of the system.
func TestSystemAuthorities(t *testing.T) {
	a := newAuthority(t)
	flags := a.issue(t, t.TempDir(), onLoopback)
	flags.CA = ""
	addr, _ := startTLS(t, flags.mustOpen(t, nil))
	if err := check(t, nil, "https://"+addr); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("an authority that the system does not know: %v", err)
	}
	if err := check(t, TLS{CA: a.issue(t, t.TempDir(), onLoopback).CA}.mustOpen(t, nil), "https://"+addr+"/"); err != nil {
		t.Error(err)
	}
}

// A replica that was found by a name proves the name, not its address.
func TestDialAs(t *testing.T) {
	a := newAuthority(t)
	addr, _ := startTLS(t, a.issue(t, t.TempDir(), x509.Certificate{DNSNames: []string{"pools"}}).mustOpen(t, nil))
	client := a.issue(t, t.TempDir(), onLoopback).mustOpen(t, nil)
	for name, says := range map[string]string{"pools:7414": "", "other:7414": "not other", addr: "127.0.0.1"} {
		conn, err := client.DialAs(name, addr, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		_ = conn.Close()
		if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("as %s: %v, want %q", name, err, says)
		}
	}
}

// TLS 1.2 is refused unless it is allowed.
func TestMinVersion(t *testing.T) {
	flags := newAuthority(t).issue(t, t.TempDir(), onLoopback)
	flags.CA = ""
	for allowed, says := range map[string]string{"": "protocol version not supported", "1.3": "protocol version not supported", "1.2": ""} {
		flags.MinVersion = allowed
		addr, _ := startTLS(t, flags.mustOpen(t, nil))
		conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, NextProtos: []string{"h2"}})
		if err == nil {
			_ = conn.Close()
		}
		if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("--tls-min-version %q: %v, want %q", allowed, err, says)
		}
	}
}
