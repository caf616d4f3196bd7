package task

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// AgentsCmd is `pawl agents`.
type AgentsCmd struct {
	List   AgentsListCmd   `cmd:"" default:"1" group:"sub" help:"List your agents."`
	Show   AgentsShowCmd   `cmd:"" group:"sub" help:"Show an agent."`
	Create AgentsCreateCmd `cmd:"" group:"sub" help:"Create an agent."`
	Update AgentsUpdateCmd `cmd:"" group:"sub" help:"Change an agent."`
	Delete AgentsDeleteCmd `cmd:"" group:"sub" help:"Delete an agent; its tasks continue."`
}

// AgentsListCmd is `pawl agents list`.
type AgentsListCmd struct{}

// Run lists agents.
func (c *AgentsListCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	list, err := discover.All(ctx, s.Agents.ListAgents, &executorv1.ListAgentsRequest{})
	t := u.Table("ID", "ASKS", "MODEL", "SERVERS", "WHAT")
	for _, agent := range list.GetAgents() {
		t.Row(agent.GetId(), cmp.Or(ui.EnumName(agent.GetConfirm()), "always"), cmp.Or(agent.GetModel(), "default"),
			cmp.Or(strings.Join(agent.GetMcpIds(), ","), "all"), cmp.Or(agent.GetDescription(), agent.GetDisplayName()))
	}
	return u.List(list, err, t, "no agents; tasks run as the default agent. pawl agents create ID makes another")
}

// AgentsShowCmd is `pawl agents show`.
type AgentsShowCmd struct {
	ID string `arg:"" complete:"agent" help:"The agent."`
}

// Run shows an agent.
func (c *AgentsShowCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	agent, err := s.Agents.GetAgent(ctx, &executorv1.GetAgentRequest{Id: c.ID})
	return showAgent(u, agent, "", err)
}

// AgentFields are the flags that describe an agent.
type AgentFields struct {
	Name           *string  `placeholder:"TEXT" help:"A name for people."`
	Description    *string  `placeholder:"TEXT" help:"What the agent is for; planners read this text."`
	MCP            []string `name:"mcp" xor:"servers" sep:"none" complete:"server" placeholder:"ID" help:"MCP server that the agent may use (repeatable; default: all active servers)."`
	Model          *string  `complete:"model" placeholder:"NAME" help:"The model that plans its tasks."`
	Confirm        *string  `enum:"always,by-risk,never" placeholder:"WHEN" help:"When a person is asked: ${enum}. Only operators may set never."`
	MaxSteps       *uint32  `placeholder:"N" help:"Steps that a task may take (default 25)."`
	MaxFailedSteps *uint32  `placeholder:"N" help:"Failed steps that end a task (default 3)."`

	Flow *string `enum:"agent,coding" placeholder:"FLOW" help:"How its tasks are worked on: agent (one step after the other) or coding (a plan of subtasks). Default: agent."`
	PlanFlags

	BudgetFlags
	OnUnknownOutcome *string `enum:"ask,retry,fail" placeholder:"WHAT" help:"What happens if it is unknown whether a call had its effect: ${enum}. With retry, the effect may happen twice."`
}

// apply writes the flags that are set into the agent.
func (f *AgentFields) apply(agent *executorv1.Agent) error {
	ui.Set(&agent.DisplayName, f.Name)
	ui.Set(&agent.Description, f.Description)
	ui.Set(&agent.Model, f.Model)
	ui.Set(&agent.MaxSteps, f.MaxSteps)
	ui.Set(&agent.MaxFailedSteps, f.MaxFailedSteps)
	ui.Set(&agent.Flow, f.Flow)
	agent.PlanOptions = f.planOptions(agent.GetPlanOptions())
	agent.Budget = f.merge(agent.GetBudget())
	if f.MCP != nil {
		agent.McpIds = f.MCP
	}
	if f.Confirm != nil {
		agent.Confirm = ui.EnumValue[executorv1.Confirm](*f.Confirm)
	}
	if f.WaitTimeout != nil {
		agent.WaitTimeout = f.waitTimeout()
	}
	if f.OnUnknownOutcome != nil {
		agent.OnUnknownOutcome = ui.EnumValue[executorv1.OnUnknownOutcome](*f.OnUnknownOutcome)
	}
	if f.PlanFlags != (PlanFlags{}) && agent.GetFlow() != codingFlow {
		return ui.Usagef("--confirm-plan, --parallel, --max-loops and --max-subtasks are for agents whose tasks have plans").Then("add --flow coding")
	}
	return f.PlanFlags.check()
}

// PlanFlags set how the plans of coding tasks are worked on.
type PlanFlags struct {
	ConfirmPlan *string `enum:"always,by-risk,never" placeholder:"WHEN" help:"When a person confirms the plan of a coding task: ${enum} (default: by-risk)."`
	Parallel    *uint32 `placeholder:"N" help:"Subtasks that are worked on at once, 1 to 32 (default: 4)."`
	MaxLoops    *uint32 `placeholder:"N" help:"How many times a subtask may think before it fails, 1 to 1000 (default: 30)."`
	MaxSubtasks *uint32 `placeholder:"N" help:"The most subtasks of a plan, 1 to 200 (default: 20)."`
}

// check refuses limits that the services do not accept.
func (f *PlanFlags) check() error {
	return cmp.Or(checkLimit("parallel", f.Parallel, 1, 32), checkLimit("max-loops", f.MaxLoops, 1, 1000), checkLimit("max-subtasks", f.MaxSubtasks, 1, 200))
}

// planOptions applies the flags to the old options, which may be nil.
func (f *PlanFlags) planOptions(old *executorv1.PlanOptions) *executorv1.PlanOptions {
	if *f == (PlanFlags{}) {
		return old
	}
	options := cmp.Or(old, &executorv1.PlanOptions{})
	ui.Set(&options.MaxParallel, f.Parallel)
	ui.Set(&options.MaxLoops, f.MaxLoops)
	ui.Set(&options.MaxSubtasks, f.MaxSubtasks)
	if f.ConfirmPlan != nil {
		options.Confirm = ui.EnumValue[executorv1.ConfirmPlan](*f.ConfirmPlan)
	}
	return options
}

// AgentsCreateCmd is `pawl agents create`.
type AgentsCreateCmd struct {
	ID string `arg:"" help:"The agent's id: lower-case letters, digits and -."`
	AgentFields
}

// Run creates an agent.
func (c *AgentsCreateCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	agent := &executorv1.Agent{}
	if err := c.apply(agent); err != nil {
		return err
	}
	created, err := s.Agents.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: c.ID, Agent: agent})
	return showAgent(u, created, "is created", err)
}

// AgentsUpdateCmd is `pawl agents update`.
type AgentsUpdateCmd struct {
	ID string `arg:"" complete:"agent" help:"The agent."`
	AgentFields
	AllServers bool `name:"all-servers" xor:"servers" help:"Let the agent use all active MCP servers again."`
}

// Run changes an agent.
func (c *AgentsUpdateCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	if reflect.DeepEqual(*c, AgentsUpdateCmd{ID: c.ID}) {
		return ui.Usagef("no change is given").Then("pawl agents update --help lists the flags")
	}
	old, err := s.Agents.GetAgent(ctx, &executorv1.GetAgentRequest{Id: c.ID})
	if err != nil {
		return err
	}
	agent := proto.CloneOf(old) // with its etag: the update fails if the agent was changed meanwhile
	if c.AllServers {
		agent.McpIds = nil
	}
	if err := c.apply(agent); err != nil {
		return err
	}
	paths := discover.Differences(old.ProtoReflect(), agent.ProtoReflect())
	for i := range paths { // the update mask names the budget as a whole
		paths[i], _, _ = strings.Cut(paths[i], ".")
	}
	if paths = slices.Compact(paths); len(paths) > 0 {
		agent, err = s.Agents.UpdateAgent(ctx, &executorv1.UpdateAgentRequest{Agent: agent, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
	}
	return showAgent(u, agent, "is changed", err)
}

// AgentsDeleteCmd is `pawl agents delete`.
type AgentsDeleteCmd struct {
	ID string `arg:"" complete:"agent" help:"The agent."`
}

// Run deletes an agent.
func (c *AgentsDeleteCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	answer, err := s.Agents.DeleteAgent(ctx, &executorv1.DeleteAgentRequest{Id: c.ID})
	return u.Result(answer, err, "agent %s is deleted", c.ID)
}

// showAgent prints an agent and what was done to it, or returns err.
func showAgent(u *ui.UI, agent *executorv1.Agent, done string, err error) error {
	if err != nil {
		return err
	}
	if u.JSON {
		return u.Document(agent)
	}
	st := u.OutStyle()
	u.Printf("%s\n", strings.TrimSpace("agent "+st.Bold(ui.Line(agent.GetId()))+" "+done))
	row := func(name, value string) { u.Printf("%s", st.Field(name, 8, value)) }
	row("name", agent.GetDisplayName())
	row("for", agent.GetDescription())
	row("servers", cmp.Or(strings.Join(agent.GetMcpIds(), ", "), "all active servers"))
	row("model", cmp.Or(agent.GetModel(), "default"))
	row("asks", cmp.Or(ui.EnumName(agent.GetConfirm()), "always"))
	row("limits", fmt.Sprintf("%d steps, %d failed", cmp.Or(agent.GetMaxSteps(), 25), cmp.Or(agent.GetMaxFailedSteps(), 3)))
	if agent.GetFlow() == codingFlow {
		row("flow", codingFlow)
		row("plans", planOptionsText(agent.GetPlanOptions()))
	}
	row("budget", budgetText(agent.GetBudget()))
	if t := agent.GetWaitTimeout().AsDuration(); t > 0 {
		row("waits", "expire after "+ui.Duration(t))
	}
	if name := onUnknownName(agent.GetOnUnknownOutcome()); name != "ask" {
		row("outcomes", name+" if unknown")
	}
	return nil
}

func planOptionsText(o *executorv1.PlanOptions) string {
	return fmt.Sprintf("confirmed %s, %d subtasks at once, %d in all, %d loops each",
		cmp.Or(ui.EnumName(o.GetConfirm()), "by-risk"), cmp.Or(o.GetMaxParallel(), 4), cmp.Or(o.GetMaxSubtasks(), 20), cmp.Or(o.GetMaxLoops(), 30))
}

// BudgetFlags limit what a task may use.
type BudgetFlags struct {
	MaxToolCalls  *uint32        `placeholder:"N" help:"Tool calls that a task may make."`
	MaxModelCalls *uint32        `placeholder:"N" help:"Model calls that a task may make."`
	MaxTokens     *uint64        `placeholder:"N" help:"Tokens that a task may use, in and out."`
	MaxCost       *float64       `placeholder:"USD" help:"US dollars that a task may spend on models whose price is configured, such as 0.25."`
	MaxTime       *time.Duration `placeholder:"TIME" help:"How long a task may run, such as 90s or 10m; waiting for people does not count."`
	WaitTimeout   *time.Duration `placeholder:"TIME" help:"How long a question stays open, such as 24h, before the task ends."`
}

// merge applies the flags to the old budget, which may be nil.
func (f *BudgetFlags) merge(old *executorv1.Budget) *executorv1.Budget {
	if *f == (BudgetFlags{WaitTimeout: f.WaitTimeout}) {
		return old
	}
	b := cmp.Or(old, &executorv1.Budget{})
	ui.Set(&b.MaxToolCalls, f.MaxToolCalls)
	ui.Set(&b.MaxModelCalls, f.MaxModelCalls)
	ui.Set(&b.MaxTokens, f.MaxTokens)
	if f.MaxCost != nil {
		b.MaxCostNanoUsd = uint64(math.Round(*f.MaxCost * 1e9))
	}
	if f.MaxTime != nil {
		b.MaxRunTime = durationpb.New(*f.MaxTime)
	}
	return b
}

func (f *BudgetFlags) waitTimeout() *durationpb.Duration {
	if f.WaitTimeout == nil {
		return nil
	}
	return durationpb.New(*f.WaitTimeout)
}

// check refuses limits that are not positive, and costs above a billion dollars.
func (f *BudgetFlags) check() error {
	return cmp.Or(
		checkLimit("max-tool-calls", f.MaxToolCalls, 1, math.MaxUint32), checkLimit("max-model-calls", f.MaxModelCalls, 1, math.MaxUint32),
		checkLimit("max-tokens", f.MaxTokens, 1, math.MaxUint64), checkLimit("max-cost", f.MaxCost, 1e-9, 1e9),
		checkLimit("max-time", f.MaxTime, 1, math.MaxInt64), checkLimit("wait-timeout", f.WaitTimeout, 1, math.MaxInt64))
}

func checkLimit[T ~uint32 | ~uint64 | ~int64 | ~float64](flag string, value *T, least, most T) error {
	if value == nil || *value >= least && *value <= most {
		return nil
	}
	text := "more than 0"
	if *value > most {
		text = "at most " + strconv.FormatFloat(float64(most), 'f', -1, 64)
	}
	return ui.Usagef("--%s %v: it must be %s", flag, *value, text).Then("leave --%s out for the default", flag)
}

// usageText formats the usage of a task, such as "3 tool calls, 4 model calls, 512 tokens"; "" if there is none.
func usageText(u *commonv1.Usage) string {
	return joined(", ", counted(u.GetToolCalls(), "tool call"), counted(u.GetModelCalls(), "model call"),
		counted(u.GetInputTokens()+u.GetOutputTokens(), "token"), dollars(u.GetCostNanoUsd()))
}

// budgetText formats a budget; "" if it has no limit.
func budgetText(b *executorv1.Budget) string {
	cost, running := dollars(b.GetMaxCostNanoUsd()), ""
	if cost != "" {
		cost += " for models"
	}
	if d := b.GetMaxRunTime().AsDuration(); d > 0 {
		running = ui.Duration(d) + " of running"
	}
	return joined(", ", counted(b.GetMaxToolCalls(), "tool call"), counted(b.GetMaxModelCalls(), "model call"), counted(b.GetMaxTokens(), "token"), cost, running)
}

// dollars shows a price with at most four significant digits; "" if it is 0.
func dollars(nanoUSD uint64) string {
	if nanoUSD == 0 {
		return ""
	}
	return "$" + strconv.FormatFloat(float64(nanoUSD)/1e9, 'g', 4, 64)
}

// counted returns "3 nouns"; "" if n is 0.
func counted[N uint32 | uint64](n N, noun string) string {
	if n == 0 {
		return ""
	}
	return ui.Plural(int(min(uint64(n), 1<<53)), noun)
}

// joined joins the parts that are not empty.
func joined(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// bounds describes the task's wait timeout and its policy for unknown outcomes. It omits defaults.
func bounds(task *executorv1.Task) string {
	timeout, unknown := "", ""
	if d := task.GetWaitTimeout().AsDuration(); d > 0 {
		timeout = "waits expire after " + ui.Duration(d)
	}
	if name := onUnknownName(task.GetOnUnknownOutcome()); name != "ask" {
		unknown = name + " if an outcome is unknown"
	}
	return joined(", ", timeout, unknown)
}

// onUnknownName returns "ask", "retry" or "fail".
func onUnknownName(o executorv1.OnUnknownOutcome) string { return cmp.Or(ui.EnumName(o), "ask") }
