package gateway_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pawl.dev/gateway/gateway"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/serve"
)

// testCertificate returns a certificate for a gateway, and a client's configuration that trusts it.
func testCertificate(t *testing.T) (*serve.Certificates, *tls.Config) {
	t.Helper()
	donor := httptest.NewTLSServer(nil)
	defer donor.Close()
	pair := donor.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	flags := serve.TLS{Cert: filepath.Join(t.TempDir(), "cert.pem"), Key: filepath.Join(t.TempDir(), "key.pem")}
	for path, block := range map[string]*pem.Block{flags.Cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, flags.Key: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certs, err := flags.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(donor.Certificate())
	return certs, &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots}
}

// overTransports runs a test over HTTP/1.1 with and without TLS, and over HTTP/2.
func overTransports(t *testing.T, cfg gateway.Config, test func(t *testing.T, b *bench)) {
	for name, protocol := range map[string]string{"HTTP/1.1": "", "HTTP/1.1 with TLS": "http/1.1", "HTTP/2": "h2"} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			var trust *tls.Config
			if protocol != "" {
				cfg.Certificates, trust = testCertificate(t)
				trust.NextProtos = []string{protocol}
			}
			b := start(t, cfg)
			if protocol == "" {
				test(t, b)
				return
			}
			transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: protocol == "h2"}
			b.url, b.client = strings.Replace(b.url, "http:", "https:", 1), &http.Client{Transport: transport, Timeout: 20 * time.Second}
			test(t, b)
			transport.CloseIdleConnections()
		})
	}
}

// trickle is a body that sends a byte at a time, and then waits until it is closed.
type trickle struct {
	bytes  int
	closed chan struct{}
}

func newTrickle(bytes int) *trickle { return &trickle{bytes, make(chan struct{})} }

func (s *trickle) Read(p []byte) (int, error) {
	wait := 20 * time.Millisecond
	if s.bytes--; s.bytes < 0 {
		wait = time.Hour
	}
	select {
	case <-time.After(wait):
		p[0] = '{'
		return 1, nil
	case <-s.closed:
		return 0, io.ErrClosedPipe
	}
}

func (s *trickle) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

// TestSlowBody: a body that stops or trickles is answered with 408 when its time is over, whether its length is known or not.
func TestSlowBody(t *testing.T) {
	cfg := gateway.Config{Limits: serve.Limits{BodyTime: 300 * time.Millisecond}}
	overTransports(t, cfg, func(t *testing.T, b *bench) {
		for name, length := range map[string]int64{"of known length": 900_000, "of unknown length": -1} {
			for pace, bytes := range map[string]int{"stops": 1, "trickles": 1000} {
				t.Run(pace+" "+name, func(t *testing.T) {
					body := newTrickle(bytes)
					defer func() { _ = body.Close() }()
					resp, p := b.in(t).post(body, length)
					if resp.StatusCode != http.StatusRequestTimeout || p.Reason != "TIMEOUT" || !strings.Contains(p.Detail, "300ms") {
						t.Errorf("status %d, problem %+v; want 408", resp.StatusCode, p)
					}
				})
			}
		}
		if resp, text := b.in(t).text("POST", "/v1/tasks", `{"goal": "g"}`, nil); resp.StatusCode != http.StatusOK {
			t.Errorf("afterwards: %d %s", resp.StatusCode, text)
		}
	})
}

// TestTooLargeAtOnce: a Content-Length above the limit is refused before the body arrives.
func TestTooLargeAtOnce(t *testing.T) {
	overTransports(t, gateway.Config{Limits: serve.Limits{BodyTime: time.Minute}}, func(t *testing.T, b *bench) {
		begin := time.Now()
		body := newTrickle(1)
		defer func() { _ = body.Close() }()
		resp, p := b.post(body, 50_000_000)
		if took := time.Since(begin); resp.StatusCode != http.StatusRequestEntityTooLarge || p.Reason != "TOO_LARGE" || took > 30*time.Second {
			t.Errorf("status %d after %s, problem %+v; want 413 at once", resp.StatusCode, took, p)
		}
	})
}

// post sends a body to create a task, and returns the problem in the answer.
func (b *bench) post(body io.Reader, length int64) (*http.Response, problem) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+"/v1/tasks", body)
	if err != nil {
		b.t.Fatal(err)
	}
	req.ContentLength = length
	req.Header.Set("Content-Type", "application/json")
	begin := time.Now()
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatalf("after %s: %v", time.Since(begin), err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp, readProblem(b.t, resp, string(text))
}

// TestUnreadBodyEnds: a body that no handler reads holds its connection no longer than one that is read.
func TestUnreadBodyEnds(t *testing.T) {
	b := start(t, gateway.Config{Limits: serve.Limits{BodyTime: 300 * time.Millisecond}})
	for name, head := range map[string]string{
		"no route":     "POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
		"refused":      "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n",
		"timeout":      "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
		"health check": "GET /healthz HTTP/1.1\r\nHost: localhost\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := fmt.Fprintf(conn, "%sContent-Length: 3000\r\n\r\n{", head); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(bufio.NewReader(conn))
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
				t.Errorf("%q, %v; want an answer, and the end of the connection", answer, err)
			}
		})
	}
}

// TestSlowAnswer: over HTTP/2 too, a call may take longer than a client may take to read.
func TestSlowAnswer(t *testing.T) {
	overTransports(t, gateway.Config{Limits: serve.Limits{WriteTime: 200 * time.Millisecond}}, func(t *testing.T, b *bench) {
		b.executor.CreateTaskFn = func(*executorv1.CreateTaskRequest) (*executorv1.Task, error) {
			<-time.After(600 * time.Millisecond)
			return &executorv1.Task{}, nil
		}
		if resp, text := b.text("POST", "/v1/tasks", `{"goal": "g"}`, nil); resp.StatusCode != http.StatusOK {
			t.Errorf("status %d: %s", resp.StatusCode, text)
		}
	})
}

// TestLargeHeaders: headers over the limit are a problem, not a broken connection.
func TestLargeHeaders(t *testing.T) {
	overTransports(t, gateway.Config{}, func(t *testing.T, b *bench) {
		_, p := b.problem("GET", "/v1/tasks", "", header{"Authorization": "Bearer " + strings.Repeat("x", 100_000)}, http.StatusRequestHeaderFieldsTooLarge)
		if p.Reason != "TOO_LARGE" || !strings.Contains(p.Detail, "65536") {
			t.Errorf("problem %+v", p)
		}
		if resp, text := b.text("GET", "/v1/tasks", "", header{"Authorization": "Bearer " + strings.Repeat("x", 50_000)}); resp.StatusCode != http.StatusOK {
			t.Errorf("within the limit: status %d: %s", resp.StatusCode, text)
		}
	})
}
