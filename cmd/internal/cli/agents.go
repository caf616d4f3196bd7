package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// AgentsCmd is `pawl agents`.
type AgentsCmd struct {
	List   AgentsListCmd   `cmd:"" default:"1" group:"sub" help:"List your agents."`
	Show   AgentsShowCmd   `cmd:"" group:"sub" help:"Show an agent."`
	Create AgentsCreateCmd `cmd:"" group:"sub" help:"Create an agent."`
	Update AgentsUpdateCmd `cmd:"" group:"sub" help:"Change an agent."`
	Delete AgentsDeleteCmd `cmd:"" group:"sub" help:"Delete an agent; tasks that run as it go on."`
}

// withAgents runs a command that needs the agents.
func (a *App) withAgents(ctx context.Context, g *Globals, command func(context.Context, executorv1.AgentServiceClient) error) error {
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		return command(ctx, executorv1.NewAgentServiceClient(session))
	})
}

// AgentsListCmd is `pawl agents list`.
type AgentsListCmd struct{}

// Help is shown by --help.
func (AgentsListCmd) Help() string {
	return `Examples:

    pawl agents list
    pawl agents list --json | jq -r '.agents[].id'`
}

// Run lists agents.
func (c *AgentsListCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withAgents(ctx, g, func(ctx context.Context, agents executorv1.AgentServiceClient) error {
		all := &executorv1.ListAgentsResponse{}
		req := &executorv1.ListAgentsRequest{PageSize: 1000}
		for {
			list, err := agents.ListAgents(ctx, req)
			if err != nil {
				return err
			}
			all.Agents = append(all.Agents, list.GetAgents()...)
			if req.PageToken = list.GetNextPageToken(); req.GetPageToken() == "" {
				break
			}
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, all)
		}
		if len(all.GetAgents()) == 0 {
			a.note("no agents; tasks run as the default one. pawl agents create ID makes one")
			return nil
		}
		t := a.table()
		t.Row("ID", "ASKS", "MODEL", "SERVERS", "WHAT")
		for _, ag := range all.GetAgents() {
			t.Row(ag.GetId(), cmp.Or(render.ConfirmName(ag.GetConfirm()), "always"), cmp.Or(ag.GetModel(), "default"),
				cmp.Or(strings.Join(ag.GetMcpIds(), ","), "all"), cmp.Or(ag.GetDescription(), ag.GetDisplayName()))
		}
		return t.Write(a.Console.Out)
	})
}

// AgentsShowCmd is `pawl agents show`.
type AgentsShowCmd struct {
	ID string `arg:"" help:"The agent."`
}

// Help is shown by --help.
func (AgentsShowCmd) Help() string {
	return `Examples:

    pawl agents show reviewer`
}

// Run shows an agent.
func (c *AgentsShowCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withAgents(ctx, g, func(ctx context.Context, agents executorv1.AgentServiceClient) error {
		agent, err := agents.GetAgent(ctx, &executorv1.GetAgentRequest{Id: c.ID})
		return a.showAgent(g, agent, "", err)
	})
}

// AgentFields are what an agent is.
type AgentFields struct {
	Name           *string  `placeholder:"TEXT" help:"A name for people."`
	Description    *string  `placeholder:"TEXT" help:"What it is for; planners read it."`
	MCP            []string `name:"mcp" sep:"none" placeholder:"ID" help:"An MCP server it may use (repeatable; none: all that are active)."`
	Model          *string  `placeholder:"NAME" help:"The model that plans."`
	Confirm        *string  `enum:"always,by-risk,never" help:"When a person is asked: ${enum}. never is for operators."`
	MaxSteps       *uint32  `placeholder:"N" help:"Steps a task may take (default 25)."`
	MaxFailedSteps *uint32  `placeholder:"N" help:"Failed steps that end a task (default 3)."`

	BudgetFlags
	OnUnknownOutcome *string `enum:"ask,retry,fail" help:"What happens where it is not known whether a call had its effect: ${enum}. retry may make it happen twice."`
}

// apply writes the fields that were given into the agent and returns their names.
func (f *AgentFields) apply(agent *executorv1.Agent) []string {
	var mask []string
	set := func(name string, given bool, write func()) {
		if given {
			write()
			mask = append(mask, name)
		}
	}
	set("display_name", f.Name != nil, func() { agent.DisplayName = *f.Name })
	set("description", f.Description != nil, func() { agent.Description = *f.Description })
	set("mcp_ids", f.MCP != nil, func() { agent.McpIds = f.MCP })
	set("model", f.Model != nil, func() { agent.Model = *f.Model })
	set("confirm", f.Confirm != nil, func() { agent.Confirm = confirm(*f.Confirm) })
	set("max_steps", f.MaxSteps != nil, func() { agent.MaxSteps = *f.MaxSteps })
	set("max_failed_steps", f.MaxFailedSteps != nil, func() { agent.MaxFailedSteps = *f.MaxFailedSteps })
	set("budget", f.given(), func() { agent.Budget = f.over(agent.GetBudget()) })
	set("wait_timeout", f.WaitTimeout != nil, func() { agent.WaitTimeout = f.waitTimeout() })
	set("on_unknown_outcome", f.OnUnknownOutcome != nil, func() { agent.OnUnknownOutcome = onUnknown(*f.OnUnknownOutcome) })
	return mask
}

func onUnknown(word string) executorv1.OnUnknownOutcome {
	return executorv1.OnUnknownOutcome(executorv1.OnUnknownOutcome_value["ON_UNKNOWN_OUTCOME_"+strings.ToUpper(word)])
}

func confirm(word string) executorv1.Confirm {
	return executorv1.Confirm(executorv1.Confirm_value["CONFIRM_"+strings.ReplaceAll(strings.ToUpper(word), "-", "_")])
}

// AgentsCreateCmd is `pawl agents create`.
type AgentsCreateCmd struct {
	ID string `arg:"" help:"Its id: lower-case letters, digits and -."`
	AgentFields
}

// Help is shown by --help.
func (AgentsCreateCmd) Help() string {
	return `Examples:

    pawl agents create reader --confirm by-risk --mcp files --description "Answers questions about my notes"
    pawl run --agent reader "What did I write about gardening?"`
}

// Run creates an agent.
func (c *AgentsCreateCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withAgents(ctx, g, func(ctx context.Context, agents executorv1.AgentServiceClient) error {
		agent := &executorv1.Agent{}
		c.apply(agent)
		made, err := agents.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: c.ID, Agent: agent})
		return a.showAgent(g, made, "is created", err)
	})
}

// AgentsUpdateCmd is `pawl agents update`.
type AgentsUpdateCmd struct {
	ID string `arg:"" help:"The agent."`
	AgentFields
	AllServers bool `name:"all-servers" xor:"servers" help:"Let it use all active MCP servers again."`
}

// Help is shown by --help.
func (AgentsUpdateCmd) Help() string {
	return `What is not named stays as it is.

Examples:

    pawl agents update reader --max-steps 50
    pawl agents update reader --mcp files --mcp search
    pawl agents update reader --max-tool-calls 100 --wait-timeout 48h
    pawl agents update reader --description ""`
}

// Run changes an agent.
func (c *AgentsUpdateCmd) Run(ctx context.Context, a *App, g *Globals) error {
	mask := c.apply(&executorv1.Agent{})
	if c.AllServers {
		if c.MCP != nil {
			return exit.Usagef("--mcp and --all-servers exclude each other").Then("leave one of them out")
		}
		mask = append(mask, "mcp_ids")
	}
	if len(mask) == 0 {
		return exit.Usagef("nothing is to be changed").Then("pawl agents update --help shows what can be")
	}
	return a.withAgents(ctx, g, func(ctx context.Context, agents executorv1.AgentServiceClient) error {
		agent := &executorv1.Agent{Id: c.ID}
		if c.given() { // the budget is one field: what is not named of it stays as it is
			old, err := agents.GetAgent(ctx, &executorv1.GetAgentRequest{Id: c.ID})
			if err != nil {
				return err
			}
			agent.Budget, agent.Etag = old.GetBudget(), old.GetEtag()
		}
		c.apply(agent)
		changed, err := agents.UpdateAgent(ctx, &executorv1.UpdateAgentRequest{Agent: agent, UpdateMask: &fieldmaskpb.FieldMask{Paths: mask}})
		return a.showAgent(g, changed, "is changed", err)
	})
}

// AgentsDeleteCmd is `pawl agents delete`.
type AgentsDeleteCmd struct {
	ID string `arg:"" help:"The agent."`
}

// Help is shown by --help.
func (AgentsDeleteCmd) Help() string {
	return `Examples:

    pawl agents delete reader`
}

// Run deletes an agent.
func (c *AgentsDeleteCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withAgents(ctx, g, func(ctx context.Context, agents executorv1.AgentServiceClient) error {
		answer, err := agents.DeleteAgent(ctx, &executorv1.DeleteAgentRequest{Id: c.ID})
		if err != nil {
			return err
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, answer)
		}
		a.say(g, "agent %s is deleted", c.ID)
		return nil
	})
}

// showAgent prints an agent, after what became of it.
func (a *App) showAgent(g *Globals, agent *executorv1.Agent, became string, err error) error {
	if err != nil {
		return err
	}
	if g.JSON {
		return render.JSONDocument(a.Console.Out, agent)
	}
	st := a.outStyle()
	head := "agent " + st.Bold(render.Line(agent.GetId()))
	if became != "" {
		head += " " + became
	}
	a.printf("%s\n", head)
	row := func(name, value string) {
		if value != "" {
			a.printf("  %s %s\n", st.Dim(fmt.Sprintf("%-8s", name)), render.Line(value))
		}
	}
	row("name", agent.GetDisplayName())
	row("for", agent.GetDescription())
	row("servers", cmp.Or(strings.Join(agent.GetMcpIds(), ", "), "all that are active"))
	row("model", cmp.Or(agent.GetModel(), "default"))
	row("asks", cmp.Or(render.ConfirmName(agent.GetConfirm()), "always"))
	row("limits", limits(agent))
	row("budget", render.Budget(agent.GetBudget()))
	if t := agent.GetWaitTimeout().AsDuration(); t > 0 {
		row("waits", "lapse after "+render.Duration(t))
	}
	if name := render.OnUnknownName(agent.GetOnUnknownOutcome()); name != "ask" {
		row("outcomes", name+" where one is not known")
	}
	return nil
}

func limits(agent *executorv1.Agent) string {
	return fmt.Sprintf("%d steps, %d failed", cmp.Or(agent.GetMaxSteps(), 25), cmp.Or(agent.GetMaxFailedSteps(), 3))
}
