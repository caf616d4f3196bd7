package suite_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/suite"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/identity/identitytest"
)

// A suite with an issuer and no key file: its users have tasks of their own over gRPC and REST, and without a token nothing is answered.
func TestIssuerWithoutKeys(t *testing.T) {
	provider := identitytest.NewProvider(t)
	token := func(sub, group string) string {
		return provider.Token(map[string]any{"sub": sub, "groups": []string{group}})
	}
	file := identitytest.File(t, "issuers:\n"+provider.Entry("  roles_claim: groups\n  roles: {admins: [user, operator]}\n"))
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
