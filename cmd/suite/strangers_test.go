package suite_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/suite"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// Issue 13: over REST, the credential is checked before the first byte of a body.
func TestBodyOfAStrangerIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	keys, err := identity.OpenKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := keys.Add(identity.Key{Sub: "root", Roles: []identity.Role{identity.RoleOperator}})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := start(t, suite.Config{HTTPAddr: here, KeysFile: path, Workspace: t.TempDir()})
	for name, c := range map[string]struct {
		headers string
		want    int
	}{
		"no key, no body sent":      {"Content-Length: 4000000\r\n", 401},
		"a wrong key":               {"Content-Length: 4000000\r\nAuthorization: Bearer " + token + "x\r\n", 401},
		"no key, waits to continue": {"Content-Length: 4000000\r\nExpect: 100-continue\r\n", 401},
		"two keys":                  {"Content-Length: 4000000\r\nAuthorization: Bearer " + token + "\r\nAuthorization: Bearer " + token + "\r\n", 401},
		"a key, waits to continue":  {"Content-Length: 40\r\nExpect: 100-continue\r\nAuthorization: Bearer " + token + "\r\n", 100},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", s.HTTPAddr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n", c.headers)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != c.want {
				t.Fatalf("got %v, %v; want %d", resp, err, c.want)
			}
		})
	}
}

// Issue 13: bodies that do not arrive hold the memory of their user only. More of them are refused with the time to come back.
func TestBodiesInFlightAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	keys, err := identity.OpenKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	token := func(sub string) string {
		t.Helper()
		token, _, err := keys.Add(identity.Key{Sub: sub, Roles: []identity.Role{identity.RoleUser}})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	ann, bob := token("ann"), token("bob")
	s, _ := start(t, suite.Config{HTTPAddr: here, GRPCAddr: here, KeysFile: path, Limits: serve.Limits{RequestBytes: 32 << 20}, Workspace: t.TempDir()})
	var waiting []net.Conn
	send := func(key string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", s.HTTPAddr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "POST /v1/mcpServers/t/tools:call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"+
			"Content-Length: 4000000\r\nAuthorization: Bearer %s\r\n\r\n", key)
		return conn
	}
	answer := func(conn net.Conn, want int) *http.Response {
		t.Helper()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("got %v, %v; want %d", resp, err, want)
		}
		return resp
	}
	for range 4 { // 16 MiB are ann's share
		conn := send(ann)
		answer(conn, http.StatusContinue)
		waiting = append(waiting, conn)
	}
	if resp := answer(send(ann), http.StatusTooManyRequests); resp.Header.Get("Retry-After") == "" {
		t.Error("the answer does not say when to come back")
	}
	annCalls := identityv1.NewIdentityServiceClient(dial(t, s.GRPCAddr(), ann))
	if _, err := annCalls.WhoAmI(t.Context(), &identityv1.WhoAmIRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a call of ann over gRPC: %v, want ResourceExhausted", err)
	}
	answer(send(bob), http.StatusContinue)
	for _, conn := range waiting {
		_ = conn.Close()
	}
	answer(send(ann), http.StatusContinue)
}

// API keys over REST: created, used, listed, revoked at once.
func TestAPIKeysOverREST(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	keys, err := identity.OpenKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	root, _, err := keys.Add(identity.Key{Sub: "root", Roles: []identity.Role{identity.RoleOperator}})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := start(t, suite.Config{HTTPAddr: here, KeysFile: path, Workspace: t.TempDir()})
	call := func(method, path, token, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.HTTPAddr()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(answer)
	}
	field := func(answer, name string) string {
		_, rest, _ := strings.Cut(answer, `"`+name+`":"`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	code, made := call("POST", "/v1/apiKeys", root, `{"sub":"alice","note":"laptop"}`)
	token, id := field(made, "token"), field(made, "id")
	if code != 200 || token == "" || id == "" {
		t.Fatalf("%d %s", code, made)
	}
	if code, who := call("GET", "/v1/whoami", token, ""); code != 200 || field(who, "sub") != "alice" {
		t.Errorf("%d %s", code, who)
	}
	if code, answer := call("POST", "/v1/apiKeys", token, `{"sub":"alice"}`); code != 403 {
		t.Errorf("a user created a key: %d %s", code, answer)
	}
	if code, list := call("GET", "/v1/apiKeys", root, ""); code != 200 || !strings.Contains(list, id) || strings.Contains(list, token) {
		t.Errorf("%d %s", code, list)
	}
	if code, answer := call("DELETE", "/v1/apiKeys/"+id, root, ""); code != 200 {
		t.Errorf("%d %s", code, answer)
	}
	if code, answer := call("GET", "/v1/whoami", token, ""); code != 401 {
		t.Errorf("a revoked key is taken: %d %s", code, answer)
	}
	http.DefaultClient.CloseIdleConnections()
}
