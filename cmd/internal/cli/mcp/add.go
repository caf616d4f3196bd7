package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/mcppool-svc/mcppool"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// AddCmd is `pawl mcp add`.
type AddCmd struct {
	Name    string   `arg:"" optional:"" help:"Its id: lower-case letters, digits, - and _. With --from: the one entry to take."`
	Command []string `arg:"" optional:"" help:"Behind --: the program to start and its arguments."`

	ServerFlags
	Trusted bool   `help:"Believe what the server says of its tools (read-only, destructive …)."`
	From    string `type:"existingfile" placeholder:"FILE" help:"Take the servers of a file in the mcpServers format that other MCP clients use."`
}

// Run registers servers.
func (c *AddCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	servers, err := c.servers(u)
	if err != nil {
		return err
	}
	at, err := s.Server(ctx)
	if err != nil {
		return err
	}
	added := &mcppoolv1.ListMcpServersResponse{}
	var failed []error
	for _, server := range servers {
		if at.Local() {
			localise(server)
		}
		got, err := c.add(ctx, u, s, server)
		if got != nil {
			added.McpServers = append(added.McpServers, got)
			warnOfModel(ctx, u, s, got)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if u.JSON {
		if err := u.Document(added); err != nil {
			return err
		}
	}
	return oneError(u, failed)
}

// oneError reports all but the last error and returns that one.
func oneError(u *ui.UI, failed []error) error {
	if len(failed) == 0 {
		return nil
	}
	for _, err := range failed[:len(failed)-1] {
		u.Report(err)
	}
	return failed[len(failed)-1]
}

func (c *AddCmd) add(ctx context.Context, u *ui.UI, s *discover.Session, server *mcppoolv1.McpServer) (*mcppoolv1.McpServer, error) {
	id := server.GetId()
	server, err := s.Pool.CreateMcpServer(ctx, &mcppoolv1.CreateMcpServerRequest{McpServer: server, McpServerId: id})
	if err != nil {
		return nil, named(id, err)
	}
	if server.GetDisabled() {
		u.Say("%s is registered, but disabled", id)
		return server, nil
	}
	if server, err = s.Pool.ActivateMcpServer(ctx, &mcppoolv1.ActivateMcpServerRequest{Id: id}); err != nil {
		return nil, named(id, err)
	}
	if c.NoCheck {
		u.Say("%s is registered and active", id)
		return server, nil
	}
	tools, err := discover.All(ctx, s.Pool.ListTools, &mcppoolv1.ListToolsRequest{McpId: id})
	switch {
	case wantsLogin(err):
		u.Say("%s is registered and active; it wants a login: pawl mcp login %[1]s", id)
		return server, nil
	case err != nil:
		return server, ui.Errorf("%s is registered, but it does not work: %s", id, ui.AsError(err).Message).
			Then("pawl mcp test %[1]s%[2]s says more; pawl mcp update %[1]s%[2]s changes what is wrong with it", id, s.Flags())
	}
	u.Say("%s is registered and active: %s (pawl mcp tools %s)", id, ui.Plural(len(tools.GetTools()), "tool"), id)
	return server, nil
}

func named(id string, err error) error {
	e := ui.AsError(err)
	then := strings.ReplaceAll(e.Next, " ID", " "+id)
	if errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS {
		then = fmt.Sprintf("pawl mcp update %s changes it, pawl mcp remove %[1]s takes it away; or choose another id", id)
	}
	say := ui.WrapError(err, "%s: %s", id, e.Message).Then("%s", then)
	say.Code = e.Code
	return say
}

func wantsLogin(err error) bool {
	return errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED
}

// servers is what the command line asks for.
func (c *AddCmd) servers(u *ui.UI) ([]*mcppoolv1.McpServer, error) {
	if c.From != "" {
		servers, err := c.imported(u)
		if errors.Is(err, errNotInFile) {
			return nil, ui.Errorf("%s has no server %q", c.From, c.Name).Then("leave the name out to take all of them")
		}
		return servers, err
	}
	if c.Name == "" {
		return nil, ui.Usagef("the server has no name").Then("pawl mcp add NAME -- COMMAND ARGS…, pawl mcp add NAME --url URL, or pawl mcp add --from FILE")
	}
	if c.URL == "" && len(c.Command) == 0 {
		return nil, ui.Usagef("%s has neither a command nor --url", c.Name).
			Then("pawl mcp add %s -- COMMAND ARGS…, or pawl mcp add %s --url URL", c.Name, c.Name)
	}
	s := &mcppoolv1.McpServer{Id: c.Name}
	if err := c.reach(s, c.Command, false); err != nil {
		return nil, err
	}
	if err := c.logins(s); err != nil {
		return nil, err
	}
	return []*mcppoolv1.McpServer{s}, c.rest(s)
}

// rest sets what does not depend on how the server is reached.
func (c *AddCmd) rest(s *mcppoolv1.McpServer) error {
	s.Trusted = s.GetTrusted() || c.Trusted // a file may say so too
	if err := c.effects(s); err != nil {
		return err
	}
	return c.trust(s)
}

// errNotInFile says that a file has no server of the name.
var errNotInFile = errors.New("the file has no such server")

func (c *AddCmd) imported(u *ui.UI) ([]*mcppoolv1.McpServer, error) {
	if len(c.Command) > 0 || c.URL != "" {
		return nil, ui.Usagef("--from takes commands and addresses from the file").Then("leave the command and --url out")
	}
	servers, err := mcppool.ReadServers(c.From, c.Name)
	if err != nil {
		return nil, unreadable(c.From, err)
	}
	if len(servers) == 0 {
		return nil, errNotInFile
	}
	var taken []*mcppoolv1.McpServer
	for _, s := range servers {
		for _, key := range s.Unknown {
			u.Warn("server %q: the key %q is not known and has no effect", cmp.Or(s.GetDisplayName(), s.GetId()), key)
		}
		if err := c.rest(s.McpServer); err != nil {
			return nil, err
		}
		taken = append(taken, s.McpServer)
	}
	return taken, nil
}

// unreadable says what is wrong with a file, and what can be taken of it all the same.
func unreadable(path string, err error) error {
	var bad *mcppool.BadServers
	switch {
	case !errors.As(err, &bad):
		return ui.Errorf("%v", err).Then(`correct it; it must be {"mcpServers": {"name": {"command": …}}}`)
	case len(bad.Good) == 0:
		return ui.Errorf("%v", err).Then("correct the file")
	}
	return ui.Errorf("%v", err).Then("nothing was added: correct the file, or take one alone that is right: pawl mcp add %s --from %s", bad.Good[0], path)
}

// localise makes a program run where it was named: its path, and those among its arguments, mean this folder.
func localise(s *mcppoolv1.McpServer) {
	stdio := s.GetStdio()
	if stdio == nil || stdio.GetCwd() != "" {
		return
	}
	here, err := os.Getwd()
	if err != nil {
		return // the folder is gone; the server's own one has to do
	}
	stdio.Cwd = here
	if strings.ContainsRune(stdio.GetCommand(), filepath.Separator) && !filepath.IsAbs(stdio.GetCommand()) {
		stdio.Command = filepath.Join(here, stdio.GetCommand())
	}
}

// warnOfModel says that a server may have a model asked that is not there. Where models cannot be listed, as of a pool that stands
// alone, it says nothing: pawl mcp test asks the pool.
func warnOfModel(ctx context.Context, u *ui.UI, s *discover.Session, server *mcppoolv1.McpServer) {
	model := server.GetSampling().GetModel()
	if model == "" {
		return
	}
	list, err := s.Planner.ListModels(ctx, &plannerv1.ListModelsRequest{})
	if err != nil {
		return
	}
	var names []string
	for _, m := range list.GetModels() {
		if m.GetCanGenerate() {
			names = append(names, m.GetName())
		}
	}
	switch {
	case len(names) == 0:
		u.Warn("%s may have the model %q asked, and there are no models that can be: name some in the file of --models (docs/models.md)", server.GetId(), model)
	case !slices.Contains(names, model):
		u.Warn("%s may have the model %q asked, which there is not; there are %s: pawl mcp update %[1]s --sampling MODEL", server.GetId(), model, strings.Join(names, ", "))
	}
}
