package scale

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/test/rig"
)

// together are pools that know of each other, and the servers that are registered with them while they run.
type together struct {
	*cluster
	dirs   map[string]string // data folders, by address
	tokens map[string]string // of the pools' users
	text   string            // the file with the description of the tool say
	web    *guarded
}

func startTogether(t *testing.T) *together {
	t.Helper()
	r := &together{dirs: map[string]string{}, tokens: map[string]string{}, web: startGuarded(t)}
	r.cluster = newClusterOf(t, 3, func(c *cluster) {
		r.text = filepath.Join(c.dir, "text")
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		write(t, filepath.Join(c.dir, "logins.key"), base64.StdEncoding.EncodeToString(key))
		service := c.key(t, "pools", identity.RoleService)
		r.tokens["op"], r.tokens["ann"] = c.key(t, "op", identity.RoleUser, identity.RoleOperator), c.key(t, "ann", identity.RoleUser)
		for i, addr := range c.addrs {
			r.dirs[addr] = filepath.Join(c.dir, "pool-"+string(rune('a'+i)))
		}
		c.poolArgs = func(addr string) []string {
			args := []string{"--data", r.dirs[addr], "--service-key", service, "--token-key", "file:" + filepath.Join(c.dir, "logins.key"), "--allow-addresses", "127.0.0.0/8"}
			for _, a := range c.addrs[:3] {
				args = append(args, "--peers", a)
			}
			return args
		}
	})
	return r
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// at returns a client of the i-th pool with a user's key.
func (r *together) at(t *testing.T, i int, user string) mcppoolv1.McpPoolServiceClient {
	t.Helper()
	return mcppoolv1.NewMcpPoolServiceClient(rig.Dial(t, r.addrs[i], r.tokens[user]))
}

func (r *together) register(ctx context.Context, t *testing.T, i int) {
	t.Helper()
	low := &mcppoolv1.ToolPolicy{Effect: commonv1.Effect_EFFECT_READ, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_LOW}
	for _, s := range []*mcppoolv1.McpServer{
		{Id: "added", AutoActivate: true, ToolPolicies: map[string]*mcppoolv1.ToolPolicy{"read": low}, Transport: &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{
			Command: os.Args[0], Env: map[string]string{serverVariable: "added", startsVariable: r.starts, textVariable: r.text},
		}}},
		{Id: "web", AutoActivate: true, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: r.web.URL}}},
	} {
		if _, err := r.at(t, i, "op").CreateMcpServer(ctx, &mcppoolv1.CreateMcpServerRequest{McpServer: s}); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *together) login(ctx context.Context, t *testing.T, i int) {
	t.Helper()
	began, err := r.at(t, i, "ann").StartMcpLogin(ctx, &mcppoolv1.StartMcpLoginRequest{McpId: "web", RedirectUri: "http://127.0.0.1:4321/callback"})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(began.GetAuthorizationUrl())
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.at(t, i, "ann").FinishMcpLogin(ctx, &mcppoolv1.FinishMcpLoginRequest{State: u.Query().Get("state"), Code: "consented"})
	if err != nil {
		t.Fatal(err)
	}
}

// call calls a tool as ann, and returns its text, or the reason of the error.
func (r *together) call(ctx context.Context, t *testing.T, i int, server, tool string) string {
	t.Helper()
	stream, err := r.at(t, i, "ann").CallTool(ctx, &mcppoolv1.CallToolRequest{McpId: server, Name: tool})
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return said.String()
		}
		if err != nil {
			return errs.ReasonName(errs.Reason(err))
		}
		for _, c := range m.GetResult().GetContent() {
			said.WriteString(c.GetText())
		}
	}
}

func (r *together) expect(ctx context.Context, t *testing.T, i int, server, tool, want string) {
	t.Helper()
	if got := r.call(ctx, t, i, server, tool); got != want {
		t.Errorf("%s/%s at pool %d: %q, want %q", server, tool, i, got, want)
	}
}

// runTask runs a task of ann's with the registered server.
func (r *together) runTask(ctx context.Context, t *testing.T) {
	t.Helper()
	s, err := follow(ctx, r.clients["ann"], task(filepath.Join(r.dir, "added"), "added/read"))
	if err != nil || s.status != executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS || len(s.errors) > 0 {
		t.Fatalf("a task: %+v, %v", s, err)
	}
}

// A server, a login or an approval that one of three pools receives is known to all, even after that pool has died. A pool that starts
// empty learns everything before it answers.
func TestReplicasKnowTheSame(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := startTogether(t)
	write(t, r.text, "says this")
	r.register(ctx, t, 0)
	r.expect(ctx, t, 1, "web", "hello", "LOGIN_REQUIRED")
	r.login(ctx, t, 0)
	for i := range 3 {
		r.expect(ctx, t, i, "web", "hello", "hello")
	}
	r.expect(ctx, t, 0, "added", "say", "says this")

	write(t, r.text, "says that") // to pools that have no connection yet, and so start the server again
	r.expect(ctx, t, 1, "added", "say", "TOOL_QUARANTINED")
	held, err := r.at(t, 1, "op").ListTools(ctx, &mcppoolv1.ListToolsRequest{McpId: "added", Quarantined: true})
	if err != nil || len(held.GetQuarantinedTools()) != 1 {
		t.Fatalf("quarantined: %v, %v", held, err)
	}
	_, err = r.at(t, 1, "op").ApproveTool(ctx, &mcppoolv1.ApproveToolRequest{
		McpId: "added", Name: "say", DefinitionHash: held.GetQuarantinedTools()[0].GetTool().GetDefinitionHash(),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.expect(ctx, t, 2, "added", "say", "says that")
	r.runTask(ctx, t)

	r.pools[r.addrs[0]].Kill()
	for i := 1; i < 3; i++ {
		r.expect(ctx, t, i, "web", "hello", "hello")
		r.expect(ctx, t, i, "added", "say", "says that")
	}
	r.runTask(ctx, t)

	r.dirs[r.addrs[0]] = filepath.Join(r.dir, "empty")
	r.startPool(t, r.addrs[0])
	r.expect(ctx, t, 0, "web", "hello", "hello")
	r.expect(ctx, t, 0, "added", "say", "says that")
	r.runTask(ctx, t)
	if _, err := r.at(t, 2, "ann").DeleteMcpLogin(ctx, &mcppoolv1.DeleteMcpLoginRequest{McpId: "web"}); err != nil {
		t.Fatal(err)
	}
	err = eventually(ctx, "the pool that came back is not told of the logout", func() bool { return r.call(ctx, t, 0, "web", "hello") == "LOGIN_REQUIRED" })
	if err != nil {
		t.Error(err)
	}
}
