package diagnose

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
)

// check is what one check saw.
type check = mcppoolv1.ServerCheck

const (
	ok      = mcppoolv1.ServerCheck_STATUS_OK
	failed  = mcppoolv1.ServerCheck_STATUS_FAILED
	skipped = mcppoolv1.ServerCheck_STATUS_SKIPPED // something before it failed
)

func warning(message, advice string) *check {
	return &check{Status: mcppoolv1.ServerCheck_STATUS_WARNING, Message: message, Advice: advice}
}

// Connector makes connections.
type Connector interface {
	CheckSecrets(s *registry.Server) error
	CheckTarget(ctx context.Context, s *registry.Server) (string, error)
	Connect(ctx context.Context, s *registry.Server, user string) (mcp.Client, error)
}

// Subject is the server to test.
type Subject struct {
	Server *registry.Server
	User   string // whose connection is tried
	Active bool   // the caller's tasks can use it
	// Models lists the models that the server may ask for a user; nil if the pool has no planner.
	Models func(ctx context.Context, user string) ([]string, error)
	// Review says which of its tools wait for an approval.
	Review func(*catalog.Catalog) (*pin.Review, error)
}

// run is one test.
type run struct {
	subject   Subject
	connector Connector
	client    mcp.Client // once connected
	tools     *catalog.Catalog
}

// Run makes the checks in order and skips those after a failure. ctx bounds them beside the server's own start limit. connected reports
// that the connection could be made.
func Run(ctx context.Context, connector Connector, subject Subject) (report *mcppoolv1.TestMcpServerResponse, connected bool) {
	r := &run{subject: subject, connector: connector}
	type step struct {
		name string
		do   func(context.Context) *check
	}
	steps := []step{
		{"configuration", r.configuration},
		{"secrets", r.secrets},
		{r.targetName(), r.target},
		{"connect", r.connect},
		{"tools", r.list},
		{"definitions", r.definitions},
		{"approvals", r.approvals},
	}
	if subject.Server.Sampling != nil {
		steps = append(steps, step{"models", r.models})
	}
	report = &mcppoolv1.TestMcpServerResponse{Ok: true}
	for _, step := range steps {
		result := &check{Status: skipped, Duration: &durationpb.Duration{}}
		if start := time.Now(); report.Ok {
			result = step.do(ctx)
			result.Status, report.Ok = max(result.Status, ok), result.Status != failed
			result.Duration = durationpb.New(time.Since(start))
		}
		result.Name = step.name
		report.Checks = append(report.Checks, result)
	}
	if r.client != nil {
		report.ServerInfo, report.ProtocolVersion = r.client.Info().String(), r.client.Info().Protocol
		_ = r.client.Close() // an error of closing does not matter
	}
	return report, r.client != nil
}

func (r *run) targetName() string {
	switch s := r.subject.Server; {
	case s.HTTP != nil:
		return "address"
	case s.Builtin != nil:
		return "program"
	}
	return "command"
}

func (r *run) configuration(context.Context) *check {
	s := r.subject.Server
	switch {
	case s.Disabled:
		return &check{Status: failed, Message: "the server is disabled", Advice: "enable it where it was registered"}
	case !r.subject.Active:
		return warning("your tasks do not use it", "pawl mcp activate "+s.ID)
	case s.FromConfig && s.Builtin != nil:
		return &check{Message: "built in"}
	case s.FromConfig:
		return &check{Message: "from a configuration file"}
	}
	return &check{Message: "registered"}
}

func (r *run) secrets(context.Context) *check {
	if err := r.connector.CheckSecrets(r.subject.Server); err != nil {
		return failure(err)
	}
	return &check{Message: "all that it refers to is there"}
}

func (r *run) target(ctx context.Context) *check {
	found, err := r.connector.CheckTarget(ctx, r.subject.Server)
	if err != nil {
		return failure(err)
	}
	return &check{Message: found}
}

func (r *run) connect(ctx context.Context) *check {
	ctx, cancel := context.WithTimeout(ctx, r.subject.Server.StartLimit())
	defer cancel()
	client, err := r.connector.Connect(ctx, r.subject.Server, r.subject.User)
	if err != nil {
		return failure(err)
	}
	r.client = client
	return &check{Message: client.Info().String()}
}

func (r *run) list(ctx context.Context) *check {
	// A little more than the caller of a tool waits for: a list that takes longer is of no use.
	ctx, cancel := context.WithTimeout(ctx, r.subject.Server.CallLimit())
	defer cancel()
	raw, err := r.client.ListTools(ctx)
	if err != nil {
		return failure(err)
	}
	if r.tools, err = catalog.Read(raw, time.Now()); err != nil {
		return failure(err)
	}
	if len(r.tools.Tools) == 0 {
		return warning("it has none", "see whether it needs an argument, a key or a login to offer them")
	}
	return &check{Message: count(len(r.tools.Tools), "tool")}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
