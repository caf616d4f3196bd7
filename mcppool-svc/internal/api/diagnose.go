package api

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// maxTests bounds the concurrent tests of servers: each makes a connection or a process outside the pool's limits.
const maxTests = 8

// check is the result of one step of a test.
type check = mcppoolv1.ServerCheck

const (
	checkOK      = mcppoolv1.ServerCheck_STATUS_OK
	checkFailed  = mcppoolv1.ServerCheck_STATUS_FAILED
	checkSkipped = mcppoolv1.ServerCheck_STATUS_SKIPPED // an earlier check failed
)

func warning(message, advice string) *check {
	return &check{Status: mcppoolv1.ServerCheck_STATUS_WARNING, Message: message, Advice: advice}
}

// Connector makes connections for tests. They are not in the pool, so that a test does not disturb calls.
type Connector interface {
	CheckSecrets(s *registry.Server) error
	CheckTarget(ctx context.Context, s *registry.Server) (string, error)
	Connect(ctx context.Context, s *registry.Server, user string) (mcp.Client, error)
}

// TestMcpServer implements McpPoolService. It calls no tool.
func (s *Server) TestMcpServer(ctx context.Context, req *mcppoolv1.TestMcpServerRequest) (*mcppoolv1.TestMcpServerResponse, error) {
	p, server, err := s.find(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	select {
	case s.tests <- struct{}{}:
		defer func() { <-s.tests }()
	default:
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"%d MCP servers are being tested already; try again in a moment", maxTests)
	}
	t := &serverTest{Server: s, subject: server, user: p.Sub, caller: p}
	report := t.run(ctx)
	if t.client != nil {
		s.Pool.Recovered(server, p.Sub)
	}
	return report, nil
}

// serverTest is one test of a server, with the user's credentials but a connection of its own.
type serverTest struct {
	*Server
	subject *registry.Server
	user    string
	caller  identity.Principal
	client  mcp.Client // nil until connected
	tools   *catalog.Catalog
}

// run makes the checks in order and skips those after a failure.
func (t *serverTest) run(ctx context.Context) *mcppoolv1.TestMcpServerResponse {
	type step struct {
		name string
		do   func(context.Context) *check
	}
	steps := []step{
		{"configuration", t.configuration},
		{"secrets", t.secrets},
		{t.targetName(), t.target},
		{"connect", t.connect},
		{"tools", t.list},
		{"definitions", t.definitions},
		{"approvals", t.approvals},
	}
	if t.subject.Sampling != nil {
		steps = append(steps, step{"models", t.models})
	}
	report := &mcppoolv1.TestMcpServerResponse{Ok: true}
	for _, step := range steps {
		result := &check{Status: checkSkipped, Duration: &durationpb.Duration{}}
		if start := time.Now(); report.Ok {
			result = step.do(ctx)
			result.Status, report.Ok = max(result.Status, checkOK), result.Status != checkFailed
			result.Duration = durationpb.New(time.Since(start))
		}
		result.Name = step.name
		report.Checks = append(report.Checks, result)
	}
	if t.client != nil {
		report.ServerInfo, report.ProtocolVersion = t.client.Info().String(), t.client.Info().Protocol
		_ = t.client.Close() // an error does not matter here
	}
	return report
}

func (t *serverTest) targetName() string {
	switch s := t.subject; {
	case s.HTTP != nil:
		return "address"
	case s.Builtin != nil:
		return "program"
	}
	return "command"
}

func (t *serverTest) configuration(context.Context) *check {
	s := t.subject
	switch {
	case s.Disabled:
		return &check{Status: checkFailed, Message: "the server is disabled", Advice: howToEnable(s)}
	case !t.Registry.Active(t.user, s):
		return warning("your tasks do not use the server", "pawl mcp activate "+s.ID)
	case s.FromConfig && s.Builtin != nil:
		return &check{Message: "built in"}
	case s.FromConfig:
		return &check{Message: "from a configuration file"}
	}
	return &check{Message: "registered"}
}

func (t *serverTest) secrets(context.Context) *check {
	if err := t.Connector.CheckSecrets(t.subject); err != nil {
		return t.failure(err)
	}
	return &check{Message: "all references to secrets can be resolved"}
}

func (t *serverTest) target(ctx context.Context) *check {
	found, err := t.Connector.CheckTarget(ctx, t.subject)
	if err != nil {
		return t.failure(err)
	}
	if !t.caller.SeesDetails() {
		found = "found" // the address or the path is the operator's
	}
	return &check{Message: found}
}

func (t *serverTest) connect(ctx context.Context) *check {
	ctx, cancel := context.WithTimeout(ctx, t.subject.StartLimit())
	defer cancel()
	client, err := t.Connector.Connect(ctx, t.subject, t.user)
	if err != nil {
		return t.failure(err)
	}
	t.client = client
	return &check{Message: client.Info().String()}
}

func (t *serverTest) list(ctx context.Context) *check {
	// A list that takes longer than a call may take cannot be used.
	ctx, cancel := context.WithTimeout(ctx, t.subject.CallLimit())
	defer cancel()
	raw, err := t.client.ListTools(ctx)
	if err != nil {
		return t.failure(err)
	}
	if t.tools, err = catalog.Read(raw); err != nil {
		return t.failure(err)
	}
	if len(t.tools.Tools) == 0 {
		return warning("the server has no tools", "check whether the server offers tools only with an argument, a key or a login")
	}
	return &check{Message: count(len(t.tools.Tools), "tool")}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// GetMcpServerLog implements McpPoolService.
func (s *Server) GetMcpServerLog(ctx context.Context, req *mcppoolv1.GetMcpServerLogRequest) (*mcppoolv1.GetMcpServerLogResponse, error) {
	p, server, err := s.find(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	log := s.Pool.Log(server, p.Sub)
	resp := &mcppoolv1.GetMcpServerLogResponse{Stderr: log.Stderr.Text, Truncated: log.Stderr.Cut, Connected: log.Connected}
	if !log.Time.IsZero() {
		resp.ConnectTime = timestamppb.New(log.Time)
	}
	if log.Err != nil {
		resp.LastError = p.Explain(log.Err)
	}
	return resp, nil
}
