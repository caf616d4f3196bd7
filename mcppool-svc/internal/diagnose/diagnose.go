package diagnose

import (
	"context"
	"fmt"
	"time"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
)

// Status is how a check went.
type Status int

// The ways it can go.
const (
	OK Status = iota
	Warning
	Failed
	Skipped // something before it failed
)

// Result is what one check saw.
type Result struct {
	Name    string
	Status  Status
	Message string // what was seen
	Advice  string // what to do about it; empty if there is nothing to do
	Took    time.Duration
}

// Report is all of it.
type Report struct {
	Results []Result
	Info    mcp.Info // what the server says it is; zero if it could not be asked
	// Connected says that the connection could be made.
	Connected bool
}

// OK reports whether nothing failed.
func (r *Report) OK() bool {
	for _, c := range r.Results {
		if c.Status == Failed {
			return false
		}
	}
	return true
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
	report    Report
	failed    bool
	client    mcp.Client // once connected
	tools     *catalog.Catalog
}

// Run makes the checks in order and skips those after a failure. ctx bounds them beside the server's own start limit.
func Run(ctx context.Context, connector Connector, subject Subject) *Report {
	r := &run{subject: subject, connector: connector}
	defer r.hangUp()
	type step struct {
		name string
		do   func(context.Context) Result
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
	for _, step := range steps {
		if r.failed {
			r.report.Results = append(r.report.Results, Result{Name: step.name, Status: Skipped})
			continue
		}
		start := time.Now()
		result := step.do(ctx)
		result.Name, result.Took = step.name, time.Since(start)
		r.failed = result.Status == Failed
		r.report.Results = append(r.report.Results, result)
	}
	return &r.report
}

// hangUp ends the connection; an error of closing does not matter.
func (r *run) hangUp() {
	if r.client != nil {
		_ = r.client.Close()
	}
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

func (r *run) configuration(context.Context) Result {
	s := r.subject.Server
	switch {
	case s.Disabled:
		return Result{Status: Failed, Message: "the server is disabled", Advice: "enable it where it was registered"}
	case !r.subject.Active:
		return Result{Status: Warning, Message: "your tasks do not use it", Advice: "pawl mcp activate " + s.ID}
	case s.FromConfig && s.Builtin != nil:
		return Result{Message: "built in"}
	case s.FromConfig:
		return Result{Message: "from a configuration file"}
	}
	return Result{Message: "registered"}
}

func (r *run) secrets(context.Context) Result {
	if err := r.connector.CheckSecrets(r.subject.Server); err != nil {
		return failure(err)
	}
	return Result{Message: "all that it refers to is there"}
}

func (r *run) target(ctx context.Context) Result {
	found, err := r.connector.CheckTarget(ctx, r.subject.Server)
	if err != nil {
		return failure(err)
	}
	return Result{Message: found}
}

func (r *run) connect(ctx context.Context) Result {
	ctx, cancel := context.WithTimeout(ctx, r.subject.Server.StartLimit())
	defer cancel()
	client, err := r.connector.Connect(ctx, r.subject.Server, r.subject.User)
	if err != nil {
		return failure(err)
	}
	r.client, r.report.Info, r.report.Connected = client, client.Info(), true
	return Result{Message: r.report.Info.String()}
}

func (r *run) list(ctx context.Context) Result {
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
		return Result{Status: Warning, Message: "it has none", Advice: "see whether it needs an argument, a key or a login to offer them"}
	}
	return Result{Message: count(len(r.tools.Tools), "tool")}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
