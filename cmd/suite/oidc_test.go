package suite_test

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/suite"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
)

// A suite with an issuer and no key file: its users have tasks of their own over gRPC and REST, and without a token nothing is answered.
func TestIssuerWithoutKeys(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	provider := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k1", Algorithm: "RS256"}}}
	web := httptest.NewServer(provider)
	defer web.Close()
	provider.SetIssuer(web.URL)
	token := func(sub, group string) string {
		return oidctest.SignIDToken(key, "k1", "RS256", fmt.Sprintf(`{"iss":%q,"aud":"pawl","sub":%q,"groups":[%q],"exp":%d}`,
			web.URL, sub, group, time.Now().Add(time.Hour).Unix()))
	}
	file := filepath.Join(t.TempDir(), "issuers.yaml")
	content := fmt.Sprintf("issuers:\n- issuer: %s\n  audience: pawl\n  roles_claim: groups\n  roles: {admins: [user, operator]}\n", web.URL)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := start(t, suite.Config{GRPCAddr: here, HTTPAddr: here, IssuersFile: file, Workspace: root})
	ann := executorv1.NewExecutorServiceClient(dial(t, s.GRPCAddr(), token("ann", "staff")))
	bob := executorv1.NewExecutorServiceClient(dial(t, s.GRPCAddr(), token("bob", "admins")))
	task := run(t, ann, "How many Go files are there?")
	if !strings.Contains(task.GetFullAnswer(), "1 Go file") {
		t.Errorf("answer %q", task.GetFullAnswer())
	}
	if _, err := bob.GetTask(t.Context(), &executorv1.GetTaskRequest{Id: task.GetId()}); status.Code(err) != codes.NotFound {
		t.Errorf("another user's task: %v", err)
	}
	for name, test := range map[string]struct {
		token string
		want  int
	}{"her token": {token("ann", "staff"), 200}, "another's token": {token("bob", "admins"), 404}, "no token": {"", 401}, "a forged token": {token("ann", "staff") + "A", 401}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.HTTPAddr()+"/v1/tasks/"+task.GetId(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if test.token != "" {
			req.Header.Set("Authorization", "Bearer "+test.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != test.want {
			t.Errorf("REST with %s: %s, want %d", name, resp.Status, test.want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	keys := identityv1.NewIdentityServiceClient(dial(t, s.GRPCAddr(), token("bob", "admins")))
	if _, err := keys.CreateApiKey(t.Context(), &identityv1.CreateApiKeyRequest{Sub: "eve"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("creating a key without a key file: %v", err)
	}
}
