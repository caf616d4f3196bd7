package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

func deny(tools ...string) *mcppoolv1.PermissionRule {
	return &mcppoolv1.PermissionRule{Tools: tools, Decision: mcppoolv1.PermissionDecision_PERMISSION_DECISION_DENY}
}

// twoServers are a program and an address, with a bit of everything.
func twoServers() (files, web *mcppoolv1.McpServer) {
	files = stdio("files", "npx", "fs")
	files.GetStdio().Env, files.GetStdio().Cwd = map[string]string{"A": "1", "B": "2"}, "/srv"
	files.Active, files.Trusted, files.CallTimeout = true, true, durationpb.New(time.Minute)
	files.Permissions, files.Roots = []*mcppoolv1.PermissionRule{deny("rm")}, []string{"file:///old"}
	files.ToolPolicies = map[string]*mcppoolv1.ToolPolicy{"get": {
		Effect: commonv1.Effect_EFFECT_READ, Idempotent: true, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_MEDIUM,
	}}
	web = &mcppoolv1.McpServer{Id: "web", Active: true, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{
		Url: "http://x/mcp", Headers: map[string]string{"K": "k", "L": "l"}, Oauth: &mcppoolv1.OAuth{ClientId: "c", Scopes: []string{"a"}, Grant: mcppoolv1.OAuth_GRANT_AUTHORIZATION_CODE},
	}}}
	for _, s := range []*mcppoolv1.McpServer{files, web} {
		s.Pinning, s.Isolation = mcppoolv1.Pinning_PINNING_APPROVE_CHANGES, mcppoolv1.Isolation_ISOLATION_USER
	}
	return files, web
}

// hidden returns a server as the pool shows it: with *** for the values of its headers and environment or, if old is not nil, for those that old
// has too.
func hidden(s, old *mcppoolv1.McpServer) *mcppoolv1.McpServer {
	s = proto.CloneOf(s)
	hide := func(values, before map[string]string) {
		for name, value := range values {
			if old == nil || before[name] == value {
				values[name] = "***"
			}
		}
	}
	hide(s.GetHttp().GetHeaders(), old.GetHttp().GetHeaders())
	hide(s.GetStdio().GetEnv(), old.GetStdio().GetEnv())
	return s
}

// Only what is named changes: nothing else is in the mask, and the etag is the one that was read.
func TestMCPUpdate(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		args string
		mask string
		want func(files, web *mcppoolv1.McpServer)
	}{
		{"files --env B=3 --env C=4", "stdio.env", func(s, _ *mcppoolv1.McpServer) { s.GetStdio().Env = map[string]string{"A": "1", "B": "3", "C": "4"} }},
		{"files --unset env.A --unset effect.get --unset cwd", "stdio.cwd stdio.env tool_policies", func(s, _ *mcppoolv1.McpServer) {
			s.GetStdio().Env, s.GetStdio().Cwd, s.ToolPolicies = map[string]string{"B": "2"}, "", nil
		}},
		{"files --no-trusted --call-timeout 0s --max-connections 3", "call_timeout max_connections trusted", func(s, _ *mcppoolv1.McpServer) {
			s.Trusted, s.CallTimeout, s.MaxConnections = false, nil, 3
		}},
		{"files --deny mv --root " + dir, "permissions roots", func(s, _ *mcppoolv1.McpServer) {
			s.Permissions, s.Roots = []*mcppoolv1.PermissionRule{deny("mv")}, []string{"file://" + dir}
		}},
		{"files --unset rules --deny y", "permissions", func(s, _ *mcppoolv1.McpServer) {
			s.Permissions = []*mcppoolv1.PermissionRule{{Tools: []string{"y"}, Decision: mcppoolv1.PermissionDecision_PERMISSION_DECISION_DENY}}
		}},
		{"files --unset rules --unset roots --disabled", "disabled permissions roots", func(s, _ *mcppoolv1.McpServer) {
			s.Permissions, s.Roots, s.Disabled, s.Active = nil, nil, true, false
		}},
		{"files --effect put=write --isolation task --pinning allow-new --cache-ttl 5m", "cache_ttl isolation pinning tool_policies", func(s, _ *mcppoolv1.McpServer) {
			s.ToolPolicies["put"] = &mcppoolv1.ToolPolicy{Effect: commonv1.Effect_EFFECT_WRITE}
			s.Isolation, s.Pinning = mcppoolv1.Isolation_ISOLATION_TASK, mcppoolv1.Pinning_PINNING_ALLOW_NEW
			s.CacheTtl = durationpb.New(5 * time.Minute)
		}},
		{"files --effect get=write", "tool_policies", func(s, _ *mcppoolv1.McpServer) {
			s.ToolPolicies["get"] = &mcppoolv1.ToolPolicy{Effect: commonv1.Effect_EFFECT_WRITE, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_MEDIUM}
		}},
		{"files --effect get=destructive", "tool_policies", func(s, _ *mcppoolv1.McpServer) {
			s.ToolPolicies["get"] = &mcppoolv1.ToolPolicy{Effect: commonv1.Effect_EFFECT_DESTRUCTIVE}
		}},
		{"files --url http://y/mcp --header K=v", "http", func(s, _ *mcppoolv1.McpServer) {
			s.Transport = &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "http://y/mcp", Headers: map[string]string{"K": "v"}}}
		}},
		{"files --user mcp", "stdio.user", func(s, _ *mcppoolv1.McpServer) { s.GetStdio().User = "mcp" }},
		{"files --cwd " + dir + " -- ./bin/fs --x", "stdio.args stdio.command stdio.cwd", func(s, _ *mcppoolv1.McpServer) {
			s.GetStdio().Command, s.GetStdio().Args, s.GetStdio().Cwd = "./bin/fs", []string{"--x"}, dir
		}},
		{"web --header K=new --unset header.L", "http.headers", func(_, s *mcppoolv1.McpServer) {
			s.GetHttp().Headers = map[string]string{"K": "new"}
		}},
		{"web --url http://y/mcp", "http.url", func(_, s *mcppoolv1.McpServer) { s.GetHttp().Url = "http://y/mcp" }},
		{"web --client-id d --unset scopes", "http.oauth.client_id http.oauth.scopes", func(_, s *mcppoolv1.McpServer) {
			s.GetHttp().Oauth = &mcppoolv1.OAuth{ClientId: "d", Grant: mcppoolv1.OAuth_GRANT_AUTHORIZATION_CODE}
		}},
		{"web --unset oauth", "http.oauth", func(_, s *mcppoolv1.McpServer) { s.GetHttp().Oauth = nil }},
	} {
		t.Run(tc.args, func(t *testing.T) {
			w := newWorld(t)
			files, web := twoServers()
			w.register(files, web)
			w.serveElsewhere()
			wantFiles, wantWeb := twoServers()
			tc.want(wantFiles, wantWeb)
			args := strings.Fields(tc.args)
			w.pawl(append([]string{"mcp", "update"}, args...)...).expect(t, 0, args[0]+" is changed\n", "")
			for _, want := range []*mcppoolv1.McpServer{wantFiles, wantWeb} {
				if diff := cmp.Diff(hidden(want, nil), w.pool.Server(want.GetId()), protocmp.Transform(), protocmp.IgnoreFields(want, "etag")); diff != "" {
					t.Error(diff)
				}
			}
			update := clitest.Sent[*mcppoolv1.UpdateMcpServerRequest](w.pool.Script)[0]
			want := wantFiles
			if args[0] == "web" {
				want = wantWeb
			}
			if diff := cmp.Diff(hidden(want, web).GetHttp().GetHeaders(), update.GetMcpServer().GetHttp().GetHeaders()); diff != "" {
				t.Error(diff)
			}
			if got := strings.Join(update.GetUpdateMask().GetPaths(), " "); got != tc.mask {
				t.Errorf("mask %q, want %q", got, tc.mask)
			}
			if got := update.GetMcpServer().GetEtag(); got == "" {
				t.Error("no etag: another change made meanwhile would be lost")
			}
		})
	}
}

// As with add, a program that is named by a relative path is started in the current folder.
func TestMCPUpdateMakesPathsAbsolute(t *testing.T) {
	w := newWorld(t)
	files, _ := twoServers()
	w.register(files)
	root := chdir(t, "app")
	w.serveElsewhere()
	w.pawl("mcp", "update", "files", "--", "./bin/server").expect(t, 0, "it counts as another server now", "")
	if got := w.pool.Server("files").GetStdio(); got.GetCommand() != root+"/bin/server" || got.GetCwd() != root || len(got.GetEnv()) != 2 {
		t.Errorf("stdio %v", got)
	}
}

// mcp update says what a change means for approvals and logins.
func TestMCPUpdateSaysWhatItMeans(t *testing.T) {
	for _, tc := range []struct{ name, args string }{
		{"moved", "web --url http://y/mcp"},
		{"pinning", "files --pinning trust-all"},
		{"login client", "web --client-secret ${env:S}"},
		{"disabled", "files --disabled"},
		{"not checked", "files --env A=1 --no-check"},
		{"json", "web --call-timeout 2m --json"},
	} {
		w := newWorld(t)
		files, web := twoServers()
		w.register(files, web)
		w.held = map[string][]*mcppoolv1.QuarantinedTool{"files": {{}}}
		w.serveElsewhere()
		w.golden("mcp update "+tc.name, w.pawl(append([]string{"mcp", "update"}, strings.Fields(tc.args)...)...).anyTime())
	}
	w := newWorld(t)
	files, web := twoServers()
	files.Active = false
	w.register(files, web)
	w.unlisted = wantsLogin
	w.serveElsewhere()
	w.pawl("mcp", "update", "web", "--call-timeout", "2m").expect(t, 0, "it requires a login: pawl mcp login web", "")
	w.pawl("mcp", "update", "files", "--call-timeout", "2m").expect(t, 0, "your tasks do not use it: pawl mcp activate files", "")
}

func TestMCPUpdateRefusals(t *testing.T) {
	w := newWorld(t)
	files, web := twoServers()
	w.register(files, web)
	w.unlisted = unavailable("files", "files cannot be started: no such program")
	w.serveElsewhere()
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"files":                             {64, "no change is given"},
		"nope --trusted":                    {1, "next: pawl mcp list"},
		"files --header A=b":                {64, "--header is for servers with --url"},
		"web --env A=b":                     {64, "--env, --cwd and --user are for servers with a command"},
		"web --env A":                       {64, `--env: expected "<key>=<value>" but got "A"`},
		"web --url http://y -- prog":        {64, "a server has a command or --url, not both"},
		"files --client-id x":               {64, "are for servers with --url"},
		"files --effect a=reads":            {64, "there is no such effect"},
		"files --unset env.Z":               {1, "files has no such entry"},
		"files --unset header.K":            {1, "files has no such entry"},
		"files --unset oauth":               {64, "files is a server without this setting"},
		"files --unset all":                 {64, `--unset "all": there is no such setting`},
		"files --pinning some":              {64, "--pinning"},
		"files --call-timeout=-1s":          {64, "a time cannot be negative"},
		"files --trusted":                   {1, "files is changed, but it does not work: files cannot be started"},
		"files --from nowhere.json":         {64, "nowhere.json"},
		"files --trusted --no-trusted=nope": {64, ""},
	} {
		w.pawl(append([]string{"mcp", "update"}, strings.Fields(args)...)...).expect(t, want.code, "", want.says)
	}
}

// A change of a server that another user changed meanwhile is refused.
func TestMCPUpdateLosesNothing(t *testing.T) {
	w := newWorld(t)
	files, _ := twoServers()
	w.register(files)
	before := w.pool.Server("files")
	clitest.On(w.pool.Script, func(_ *mcppoolv1.GetMcpServerRequest, next func() (*mcppoolv1.McpServer, error)) (*mcppoolv1.McpServer, error) {
		s, err := next()
		s.Etag = "before"
		return s, err
	})
	w.serveElsewhere()
	w.pawl("mcp", "update", "files", "--env", "A=9").expect(t, 1, "", "changed since you read it")
	if diff := cmp.Diff(before, w.pool.Server("files"), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// With --from, the file's entry replaces the server's settings.
func TestMCPUpdateFromAFile(t *testing.T) {
	w := newWorld(t)
	files, _ := twoServers()
	files.AutoActivate = true
	w.register(files)
	path := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(path, []byte(`{"mcpServers": {"Files": {"command": "/opt/fs", "cwd": "/opt", "timeout": 5}, "b": {"url": "http://b"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.serveElsewhere()
	w.pawl("mcp", "update", "files", "--from", path, "--deny", "rm").expect(t, 0, "files is changed", "")
	want := stdio("files", "/opt/fs")
	want.GetStdio().Cwd = "/opt"
	want.DisplayName, want.Active, want.AutoActivate, want.CallTimeout = "Files", true, true, durationpb.New(5*time.Second)
	want.Pinning, want.Isolation = mcppoolv1.Pinning_PINNING_APPROVE_CHANGES, mcppoolv1.Isolation_ISOLATION_USER
	want.Permissions = []*mcppoolv1.PermissionRule{deny("rm")}
	if diff := cmp.Diff(want, w.pool.Server("files"), protocmp.Transform(), protocmp.IgnoreFields(want, "etag")); diff != "" {
		t.Error(diff)
	}
	w.pawl("mcp", "update", "nope", "--from", path).expect(t, 1, "", `has no server "nope"`)
	w.pawl("mcp", "update", "files", "--from", path, "--url", "http://x").expect(t, 64, "", "--from takes commands and addresses from the file")
}
