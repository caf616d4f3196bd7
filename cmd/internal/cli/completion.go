package cli

import (
	"context"
	"embed"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// completions are the shells' scripts, which run `pawl __complete WORD…` to get the candidates.
//
//go:embed completion
var completions embed.FS

// CompletionCmd is `pawl completion`.
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: ${enum}."`
}

// Run prints the script.
func (c *CompletionCmd) Run(u *ui.UI) error {
	script, err := completions.ReadFile("completion/" + c.Shell)
	u.Printf("%s", script)
	return err
}

const (
	completeCommand = "__complete"
	completeWithin  = 2 * time.Second

	// Candidates that tell the shell to complete file or folder names itself.
	files   = ":files"
	folders = ":folders"
)

// candidate is a possible word with its description.
type candidate struct{ word, about string }

// place describes the position of the last word of a command line.
type place struct {
	node    *kong.Node
	flags   []*kong.Flag // of the node and its ancestors
	valueOf *kong.Value  // the flag or argument whose value the last word is; nil: the word is a command or a flag
	prefix  string       // the part of the last word before the value: "--flag=" or ""
	globals Globals      // the flags of the line that select the server
	before  []string     // arguments before the last word
}

// complete prints the candidates for the last word, one per line, with a tab and the description.
func (a *App) complete(ctx context.Context, model *kong.Application, words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	p := find(model.Node, words)
	var list []candidate
	switch {
	case p.valueOf != nil:
		list = a.values(ctx, p)
	case strings.HasPrefix(last, "-"):
		for _, f := range p.flags {
			if !f.Hidden {
				list = append(list, candidate{"--" + f.Name, firstSentence(f.Help)})
			}
		}
	default:
		for _, child := range p.node.Children {
			if !child.Hidden {
				list = append(list, candidate{child.Name, firstSentence(child.Help)})
			}
		}
	}
	for _, c := range list {
		if word := p.prefix + c.word; strings.HasPrefix(word, last) || c.word == files || c.word == folders {
			a.UI.Printf("%s\t%s\n", word, ui.Line(c.about))
		}
	}
	return nil
}

// find walks the words through the grammar and returns the place of the last one.
func find(root *kong.Node, words []string) place {
	p := place{node: root, flags: root.Flags, globals: Globals{
		Server: os.Getenv("PAWL_SERVER"), Key: os.Getenv("PAWL_KEY"), Data: os.Getenv("PAWL_DATA"),
		CA: os.Getenv("PAWL_CA"), Cert: os.Getenv("PAWL_CLIENT_CERT"), CertKey: os.Getenv("PAWL_CLIENT_KEY"),
	}}
	before, last := words[:len(words)-1], words[len(words)-1]
	var pending *kong.Flag // the flag whose value is the next word
	for _, word := range before {
		switch name, value, assigned := strings.Cut(word, "="); {
		case pending != nil:
			p.globals.set(pending.Name, word)
			pending = nil
		case strings.HasPrefix(word, "-"):
			if pending = p.flag(name); pending != nil && (pending.IsBool() || assigned) {
				p.globals.set(pending.Name, value)
				pending = nil
			}
		default:
			if i := slices.IndexFunc(p.node.Children, func(n *kong.Node) bool { return n.Name == word }); i >= 0 {
				p.node = p.node.Children[i]
				p.flags = append(slices.Clone(p.node.Flags), p.flags...)
				continue
			}
			p.before = append(p.before, word)
		}
	}
	name, _, assigned := strings.Cut(last, "=")
	switch flag := p.flag(name); {
	case pending != nil:
		p.valueOf = pending.Value
	case assigned && flag != nil:
		p.valueOf, p.prefix = flag.Value, name+"="
	case !strings.HasPrefix(last, "-") && len(p.node.Positional) > 0:
		n := min(len(p.before), len(p.node.Positional)-1)
		p.valueOf = p.node.Positional[n]
	}
	return p
}

// flag returns the flag that a word names, or nil.
func (p place) flag(word string) *kong.Flag {
	for _, f := range p.flags {
		if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
			return f
		}
	}
	return nil
}

// set stores the value of a flag that selects the server, and ignores other flags.
func (g *Globals) set(flag, value string) {
	fields := map[string]*string{"server": &g.Server, "key": &g.Key, "data": &g.Data, "ca": &g.CA, "client-cert": &g.Cert, "client-key": &g.CertKey, "pool": &g.Pool, "planner": &g.Planner}
	if to := fields[flag]; to != nil {
		*to = value
	}
}

// values returns the candidates for a value: the words of its enum, or else the server's objects of the kind in its tag `complete`, or else
// files or folders.
func (a *App) values(ctx context.Context, p place) []candidate {
	v := p.valueOf
	var list []candidate
	for _, word := range v.EnumSlice() {
		if word != "" {
			list = append(list, candidate{word: word})
		}
	}
	switch kind := v.Tag.Get("complete"); {
	case len(list) > 0:
	case kind != "":
		list = a.ask(ctx, p, kind)
	case v.Tag.Type == "existingdir":
		list = []candidate{{word: folders}}
	case v.Tag.Type == "existingfile" || v.Tag.Type == "path" || v.Flag != nil && v.Flag.Name == "config":
		list = []candidate{{word: files}}
	}
	return list
}

// ask asks the running Pawl server, if there is one, for candidates. The kind "server" means all MCP servers, "tool" the tools of the active MCP
// servers, and "tools" both the active MCP servers and their tools.
func (a *App) ask(ctx context.Context, p place, kind string) (list []candidate) {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	s := discover.New(p.globals.discovery())
	defer func() { _ = s.Close() }()
	switch kind {
	case "task":
		tasks, _ := s.Tasks.ListTasks(ctx, &executorv1.ListTasksRequest{PageSize: 50, Statuses: statesFor[p.node.Name]})
		for _, t := range tasks.GetTasks() {
			list = append(list, candidate{ui.ShortID(t.GetId()), ui.StateName(t) + ": " + t.GetGoal()})
		}
		if len(list) > 0 {
			list = append(list, candidate{"last", "the newest task"})
		}
	case "agent":
		agents, _ := discover.All(ctx, s.Agents.ListAgents, &executorv1.ListAgentsRequest{})
		for _, agent := range agents.GetAgents() {
			list = append(list, candidate{agent.GetId(), agent.GetDescription()})
		}
	case "topic":
		topics, _ := discover.All(ctx, s.Topics.ListTopics, &conversationv1.ListTopicsRequest{})
		list = named(topics.GetTopics())
	case "webhook":
		webhooks, _ := discover.All(ctx, s.Webhooks.ListWebhooks, &executorv1.ListWebhooksRequest{})
		list = named(webhooks.GetWebhooks())
	case "model":
		models, _ := s.Planner.ListModels(ctx, &plannerv1.ListModelsRequest{})
		for _, m := range models.GetModels() {
			list = append(list, candidate{m.GetName(), m.GetDescription()})
		}
	case "server", "tool", "tools":
		servers, _ := discover.All(ctx, s.Pool.ListMcpServers, &mcppoolv1.ListMcpServersRequest{ActiveOnly: kind != "server"})
		for _, server := range servers.GetMcpServers() {
			if kind != "tool" {
				list = append(list, candidate{server.GetId(), server.GetDisplayName()})
			}
			if kind == "server" {
				continue
			}
			tools, _ := discover.All(ctx, s.Pool.ListTools, &mcppoolv1.ListToolsRequest{McpId: server.GetId()})
			for _, t := range tools.GetTools() {
				list = append(list, candidate{t.GetId(), firstSentence(t.GetDescription())})
			}
		}
	}
	return list
}

// named returns the candidates for resources that have a display name.
func named[R interface {
	GetId() string
	GetDisplayName() string
}](all []R) (list []candidate) {
	for _, r := range all {
		list = append(list, candidate{ui.ShortID(r.GetId()), r.GetDisplayName()})
	}
	return list
}

// statesFor are the task states that a command applies to. A command without an entry applies to all.
var statesFor = map[string][]executorv1.ExecutorStatus{
	"approve": {waiting}, "reject": {waiting}, "params": {waiting}, "input": {waiting}, "outcome": {waiting}, "unpause": {waiting, running},
	"pause": {initial, running, waiting}, "cancel": {initial, running, waiting},
}

const (
	initial = executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT
	running = executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	waiting = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
)

// firstSentence returns the beginning of a help text or description, on one line.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	for _, end := range []string{". ", ": ", "; ", " ("} {
		text, _, _ = strings.Cut(text, end)
	}
	return strings.TrimSuffix(text, ".")
}
