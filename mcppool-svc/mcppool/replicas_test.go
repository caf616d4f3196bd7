package mcppool

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/identity"
)

func registerAt(t *testing.T, c client, requestID string, server *mcppoolv1.McpServer) *mcppoolv1.McpServer {
	t.Helper()
	made, err := c.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{RequestId: requestID, McpServer: server})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// get returns a server, or nil if it is not found.
func get(t *testing.T, c client, id string) *mcppoolv1.McpServer {
	t.Helper()
	s, err := c.GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: id})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestReplicasShareServers: when a replica answers a create, update, deactivation or deletion, all replicas know it, and calls and
// connections follow (A14, A23).
func TestReplicasShareServers(t *testing.T) {
	r := startReplicas(t, 3, nil)
	op := func(i int) client { return r.pools[i].as("op") }
	ann := func(i int) client { return r.pools[i].as("ann") }
	watch, err := ann(2).WatchMcpServers(t.Context(), &mcppoolv1.WatchMcpServersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	made := registerAt(t, op(0), "once", fake("fake", mcptest.Good))
	if m, err := watch.Recv(); err != nil || m.GetMcpServer().GetId() != "fake" {
		t.Errorf("a watcher elsewhere sees %v, %v", m, err)
	}
	for i := range r.pools {
		if s := get(t, ann(i), "fake"); s.GetEtag() != made.GetEtag() {
			t.Errorf("replica %d has %v", i, s)
		}
		text(t, ann(i), "info")
		if again := registerAt(t, op(i), "once", fake("fake", mcptest.Good)); again.GetEtag() != made.GetEtag() {
			t.Errorf("the create repeated at replica %d made another server", i)
		}
	}
	_, err = op(2).CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: fake("fake", mcptest.Good)})
	wantReason(t, err, "ALREADY_EXISTS", "")

	before := text(t, ann(0), "info")
	changed := fake("fake", mcptest.Good)
	changed.GetStdio().Env["SOMETHING"] = "else"
	updated, err := op(1).UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{
		McpServer: changed, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"stdio"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := get(t, ann(0), "fake"); s.GetEtag() != updated.GetEtag() || s.GetEtag() == made.GetEtag() {
		t.Error("the update is not there")
	}
	if text(t, ann(0), "info") == before {
		t.Error("the connection from before the update is still in use")
	}

	if _, err := ann(1).DeactivateMcpServer(t.Context(), &mcppoolv1.DeactivateMcpServerRequest{Id: "fake"}); err != nil {
		t.Fatal(err)
	}
	if o := invoke(t, ann(0), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.reason() != "MCP_SERVER_NOT_ACTIVE" {
		t.Errorf("deactivated elsewhere: %v", o.err)
	}
	if n := r.pools[0].pool.Load().Used; n > 0 {
		eventually(t, "the connection of the user who deactivated the server stays", func() bool { return r.pools[0].pool.Load().Used == 0 })
	}

	if _, err := op(2).DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "fake"}); err != nil {
		t.Fatal(err)
	}
	for i := range r.pools {
		if s := get(t, ann(i), "fake"); s != nil {
			t.Errorf("replica %d still has it", i)
		}
	}
}

// TestReplicasApart: a replica that is cut off answers with what it knows, learns changes through those it reaches, and catches up once
// connected. Of two servers with one id the later stays; a deletion wins over a change.
func TestReplicasApart(t *testing.T) {
	r := startReplicas(t, 3, nil)
	op := func(i int) client { return r.pools[i].as("op") }
	registerAt(t, op(0), "", fake("shared", mcptest.Good))

	r.setCut(0, true, 1)
	registerAt(t, op(0), "", fake("around", mcptest.Good))
	eventually(t, "a server does not reach a replica through the third", func() bool { return get(t, op(1), "around") != nil })

	r.setCut(0, true, 1, 2)
	first := registerAt(t, op(0), "", fake("same", mcptest.Good))
	second := registerAt(t, op(1), "", fake("same", mcptest.Good))
	if first.GetEtag() == second.GetEtag() {
		t.Fatal("the two servers have the same etag")
	}
	if _, err := op(0).DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "shared"}); err != nil {
		t.Fatal(err)
	}
	_, err := op(1).UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "shared", Description: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if get(t, op(2), "shared") == nil {
		t.Error("a deletion reached replicas that are cut off")
	}
	r.setCut(0, false, 1, 2)
	r.settle(t)
	for i := range r.pools {
		eventually(t, "the replicas do not agree", func() bool {
			return get(t, op(i), "same").GetEtag() == second.GetEtag() && get(t, op(i), "shared") == nil
		})
	}
}

// TestReplicaThatHangs: the first write waits for a replica that does not answer, later ones do not, and none fails. Package peer tests
// how long they wait.
func TestReplicaThatHangs(t *testing.T) {
	r := startReplicas(t, 2, nil)
	r.setStuck(1, true)
	registerAt(t, r.pools[0].as("op"), "", fake("a", mcptest.Good))
	eventually(t, "the hanging replica still counts as up", func() bool { return !r.pools[0].peers.Status()[0].Up })
	before := r.hungWrites()
	registerAt(t, r.pools[0].as("op"), "", fake("b", mcptest.Good))
	if after := r.hungWrites(); before == 0 || after != before {
		t.Errorf("%d writes waited, and then %d", before, after)
	}
	r.setStuck(1, false)
	eventually(t, "the replica does not learn what it missed", func() bool { return get(t, r.pools[1].as("op"), "b") != nil })
}

// TestReplicasShareApprovals: a tool that was approved on one replica is usable on all.
func TestReplicasShareApprovals(t *testing.T) {
	r := startReplicas(t, 3, nil)
	ann := func(i int) client { return r.pools[i].as("ann") }
	server := fake("fake", mcptest.Good)
	server.OwnerSub = "ann"
	registerAt(t, r.pools[0].as("op"), "", server)
	listTools(t, ann(0), &mcppoolv1.ListToolsRequest{McpId: "fake"})
	for i := range r.pools { // each has its own process of the server, whose tool has to change
		if o := invoke(t, ann(i), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "change"}); o.err != nil {
			t.Fatal(o.err)
		}
		wantQuarantined(t, ann(i), "info")
	}
	held := quarantinedTools(t, ann(1))
	_, err := ann(1).ApproveTool(t.Context(), &mcppoolv1.ApproveToolRequest{
		McpId: "fake", Name: "info", DefinitionHash: held[0].GetTool().GetDefinitionHash(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.pools {
		if o := invoke(t, ann(i), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
			t.Errorf("replica %d: %v", i, o.err)
		}
	}
}

// TestFirstUseOnTwoReplicas: two replicas that are cut off pin different definitions of a tool. Once connected, the first pin counts.
func TestFirstUseOnTwoReplicas(t *testing.T) {
	r := startReplicas(t, 2, func(i int, cfg *Config, _ *Deps) {
		mode := mcptest.Good
		if i == 1 {
			mode = mcptest.Changed
		}
		s := mcptest.Stdio(mode)
		cfg.MCPConfigs = []string{writeConfig(t, map[string]any{"mcpServers": map[string]any{
			"fake": map[string]any{"command": s.Command, "env": s.Env},
		}})}
	})
	r.setCut(0, true, 1)
	ann := func(i int) client { return r.pools[i].as("ann") }
	listTools(t, ann(0), &mcppoolv1.ListToolsRequest{McpId: "fake"})
	if o := invoke(t, ann(1), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
		t.Fatal(o.err) // accepted: a replica that is cut off cannot know the first pin
	}
	r.setCut(0, false, 1)
	r.settle(t)
	eventually(t, "the later pin still counts", func() bool {
		return invoke(t, ann(1), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}).reason() == "TOOL_QUARANTINED"
	})
	if o := invoke(t, ann(0), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
		t.Errorf("the first pin does not count: %v", o.err)
	}
}

// guardedReplicas are pools with the server `web`, which wants logins.
func guardedReplicas(t *testing.T, n int, sw mcptest.Switches, edit func(i int, cfg *Config, deps *Deps)) (*replicas, *mcptest.Authority, *clock) {
	t.Helper()
	now := &clock{}
	auth := mcptest.NewAuthority(t, sw)
	web := mcptest.Protect(t, auth, webMCP(), mcptest.Guard{Ask: "mcp:basic"})
	r := startReplicas(t, n, func(i int, cfg *Config, deps *Deps) {
		cfg.AllowAddresses, deps.Now = []string{"127.0.0.0/8"}, now.now
		cfg.TokenKey = "env:KEY"
		cfg.Environ = []string{"KEY=" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))}
		if edit != nil {
			edit(i, cfg, deps)
		}
	})
	registerAt(t, r.pools[0].as("op"), "", &mcppoolv1.McpServer{Id: "web", AutoActivate: true, Transport: &mcppoolv1.McpServer_Http{
		Http: &mcppoolv1.HttpTransport{Url: web.URL},
	}})
	return r, auth, now
}

func (r *replicas) guarded(i int, auth *mcptest.Authority) *guarded {
	return &guarded{suite: r.pools[i], auth: auth}
}

// TestReplicasShareLogins: a login on one replica holds on all, also after another replica renewed its token; so does a logout.
func TestReplicasShareLogins(t *testing.T) {
	r, auth, now := guardedReplicas(t, 3, mcptest.Switches{Token: mcptest.Fields{"expires_in": 600}}, nil)
	at := func(i int) *guarded { return r.guarded(i, auth) }
	for i := range 3 {
		if o := at(i).echo(t, "ann"); o.reason() != "LOGIN_REQUIRED" {
			t.Fatalf("replica %d: %v", i, o.err)
		}
	}
	at(0).login(t, "ann")
	for i := range 3 {
		if s := at(i).state(t, "ann"); s.GetLogin() != mcppoolv1.LoginState_LOGIN_STATE_ACTIVE {
			t.Errorf("replica %d: %v", i, s.GetLogin())
		}
		if o := at(i).echo(t, "ann"); o.text() != "hi" {
			t.Fatalf("replica %d: %v", i, o.err)
		}
		if o := at(i).echo(t, "bob"); o.reason() != "LOGIN_REQUIRED" {
			t.Errorf("bob can use ann's login at replica %d: %v", i, o.err)
		}
	}
	now.move(9*time.Minute + 30*time.Second)
	for i := range 3 {
		if o := at(i).echo(t, "ann"); o.text() != "hi" {
			t.Fatalf("replica %d: %v", i, o.err)
		}
	}
	if n := auth.Grants("refresh_token"); n != 1 {
		t.Errorf("%d renewals by three replicas", n)
	}
	if _, err := at(2).as("ann").DeleteMcpLogin(t.Context(), &mcppoolv1.DeleteMcpLoginRequest{McpId: "web"}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if o := at(i).echo(t, "ann"); o.reason() != "LOGIN_REQUIRED" {
			t.Errorf("replica %d after the logout: %v", i, o.err)
		}
	}
}

// TestLoginRenewedElsewhere: a replica that was cut off used the single-use refresh token. The replica whose renewal is then refused
// asks its peers for newer tokens before it gives up the login.
func TestLoginRenewedElsewhere(t *testing.T) {
	r, auth, now := guardedReplicas(t, 2, mcptest.Switches{Token: mcptest.Fields{"expires_in": 600}}, func(_ int, _ *Config, deps *Deps) {
		deps.peerInterval = time.Second // a renewal that could not be pushed is not pulled at once
	})
	r.guarded(0, auth).login(t, "ann")
	if o := r.guarded(1, auth).echo(t, "ann"); o.text() != "hi" {
		t.Fatal(o.err)
	}
	now.move(9*time.Minute + 30*time.Second)
	r.setCut(0, true, 1)
	if o := r.guarded(0, auth).echo(t, "ann"); o.text() != "hi" {
		t.Fatal(o.err)
	}
	r.setCut(0, false, 1)
	now.move(time.Minute) // the old token has expired
	if o := r.guarded(1, auth).echo(t, "ann"); o.text() != "hi" {
		t.Errorf("the login is lost: %v", o.err)
	}
}

// TestNoSharedKey: replicas with keys of their own share servers but no logins, and log that.
func TestNoSharedKey(t *testing.T) {
	log := &lockedBuffer{}
	r, auth, _ := guardedReplicas(t, 2, mcptest.Switches{}, func(_ int, cfg *Config, deps *Deps) {
		cfg.TokenKey, deps.Log = "", log.logger()
	})
	r.guarded(0, auth).login(t, "ann")
	if o := r.guarded(0, auth).echo(t, "ann"); o.text() != "hi" {
		t.Fatal(o.err)
	}
	if o := r.guarded(1, auth).echo(t, "ann"); o.reason() != "LOGIN_REQUIRED" {
		t.Errorf("without a shared key: %v", o.err)
	}
	if !strings.Contains(log.String(), "do not share logins") {
		t.Error("the log does not say that logins are not shared")
	}
}

// TestOtherKey: a replica whose key differs from all others refuses writes, which the others would not get, and still reads. Replicas
// with the same key are not affected.
func TestOtherKey(t *testing.T) {
	r := beginReplicas(t, 3, func(i int, cfg *Config, _ *Deps) {
		cfg.TokenKey = "env:KEY"
		cfg.Environ = []string{"KEY=" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("kkx"[i:i+1], 32)))}
	})
	stranger := r.pools[2]
	eventually(t, "the replicas do not see that a key differs", func() bool {
		foreign := 0
		for _, p := range stranger.peers.Status() {
			if p.KeyMismatch {
				foreign++
			}
		}
		up := func(i, other int) bool { return r.pools[i].peers.Status()[other].Up } // other is an index among the other replicas, by address
		return foreign == 2 && up(0, 0) && up(1, 0)
	})
	op := stranger.as("op")
	server := fake("files", mcptest.Good)
	_, err := op.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: server, McpServerId: "files"})
	wantReason(t, err, "READ_ONLY", "have another --token-key than this one: 127.0.0.1:1, 127.0.0.1:2")
	if list, err := op.ListMcpServers(t.Context(), &mcppoolv1.ListMcpServersRequest{}); err != nil || len(list.GetMcpServers()) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	create(t, r.pools[0].as("op"), server)
	for name, write := range map[string]func(mcppoolv1.McpPoolServiceClient) error{
		"activate": func(c mcppoolv1.McpPoolServiceClient) error {
			_, err := c.ActivateMcpServer(t.Context(), &mcppoolv1.ActivateMcpServerRequest{Id: "files"})
			return err
		},
		"delete": func(c mcppoolv1.McpPoolServiceClient) error {
			_, err := c.DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "files"})
			return err
		},
	} {
		wantReason(t, write(op), "MCP_SERVER_NOT_FOUND", "files") // the create did not reach it
		if name == "activate" {
			if err := write(r.pools[1].as("op")); err != nil {
				t.Errorf("%s where keys agree: %v", name, err)
			}
		}
	}
}

// TestPeersOnlyServices: no user, and no operator, can write to the replicas' store or read it.
func TestPeersOnlyServices(t *testing.T) {
	r := startReplicas(t, 2, nil)
	s := r.pools[0]
	hello := &mcppoolv1.PeerHello{Replica: "x"}
	for user, role := range map[string]identity.Role{"ann": identity.RoleUser, "op": identity.RoleOperator, "svc": identity.RoleService} {
		want := codes.PermissionDenied
		if user == "svc" {
			want = codes.OK
		}
		c := mcppoolv1.NewMcpPoolPeerServiceClient(s.dial(s.keys.Ephemeral(user, []identity.Role{role})))
		_, err := c.PullEntries(t.Context(), &mcppoolv1.PullEntriesRequest{Hello: hello})
		if status.Code(err) != want {
			t.Errorf("%s: %v", user, err)
		}
		_, err = c.PushEntries(t.Context(), &mcppoolv1.PushEntriesRequest{Hello: hello, Batch: &mcppoolv1.PeerBatch{}})
		if status.Code(err) != want {
			t.Errorf("%s: %v", user, err)
		}
		hello := &mcppoolv1.PeerHello{Replica: "x", KeyCheck: "another"}
		if _, err := c.PullEntries(t.Context(), &mcppoolv1.PullEntriesRequest{Hello: hello}); user == "svc" && !strings.Contains(err.Error(), "--token-key") {
			t.Errorf("another key: %v", err)
		}
	}
}

// TestPeerSettingsAreRefused: invalid peers, and settings with which secrets would travel unprotected.
func TestPeerSettingsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  Config
		says string
	}{
		"no port":                {Config{Peers: []string{"pool-1"}}, "host:port"},
		"no credential":          {Config{Peers: []string{"pool-1:7414"}, TokenKey: "env:K"}, "--service-key"},
		"no key":                 {Config{Peers: []string{"10.0.0.1:7414"}, ServiceKey: "k"}, "--token-key"},
		"no key, by name":        {Config{Peers: []string{"dns:///pools:7414"}, ServiceKey: "k"}, "--token-key"},
		"a name that is no host": {Config{Peers: []string{"127.0.0.1:7414", "dns:///pools"}}, "dns:///name:port"},
	} {
		if _, err := New(t.Context(), tc.cfg, Deps{}); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q in it", name, err, tc.says)
		}
	}
}
