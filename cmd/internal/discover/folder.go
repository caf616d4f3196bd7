package discover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// WorkspaceID is the id of the built-in server of `pawl up`. On a command line it is an alias of the current folder's workspace server.
const WorkspaceID = "workspace"

// Folder identifies the workspace server of a folder. The zero value stands for no server.
type Folder struct {
	id   string // of the folder's server; "" if it is not registered
	code string // the beginning of the ids of its servers that allow more than reading, see CodeWorkspace
}

// Shared reports whether the server may have users who must not see each other's folders.
func (s *Session) Shared() bool { return (s.cfg.Key != "" || s.cfg.Login != nil) && !s.Embedded() }

// Workspace finds or registers the workspace server of dir ("": the current folder) and activates it for the caller.
func (s *Session) Workspace(ctx context.Context, dir string) (Folder, error) {
	root, err := RealPath(dir)
	if err != nil {
		return Folder{}, err
	}
	server, err := s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: WorkspaceID})
	if err != nil || !servesFolder(server, root) {
		return s.folderServer(ctx, folderID(root), &mcppoolv1.BuiltinTransport{Root: root}, nil)
	}
	return s.activeFolder(ctx, server)
}

const (
	// commandTimeout is the longest time that a program may run in a folder.
	commandTimeout = 10 * time.Minute
	// resultGrace is the time that a call has after its program was stopped.
	resultGrace = time.Minute
)

// CodeWorkspace finds or registers a server of dir ("": the current folder) that may change files and run the named programs, and activates it for
// the caller. Each set of permissions has a registration of its own, so that no command changes what the tasks of another one may do.
func (s *Session) CodeWorkspace(ctx context.Context, dir string, commands []string, network bool) (Folder, error) {
	root, err := RealPath(dir)
	if err != nil {
		return Folder{}, err
	}
	if holdsHome(root) {
		return Folder{}, ui.Errorf("%s holds your home folder, with keys and settings that no task should change", root).Then("cd to the folder of the project, or name it with --workspace DIR")
	}
	commands = slices.Compact(slices.Sorted(slices.Values(commands)))
	allowed := &mcppoolv1.Workspace{Write: true, Commands: commands, Network: network, CommandTimeout: durationpb.New(commandTimeout)}
	sum := sha256.Sum256([]byte(fmt.Sprint(commands, network)))
	id := codePrefix(root) + hex.EncodeToString(sum[:3])
	return s.folderServer(ctx, id, &mcppoolv1.BuiltinTransport{Root: root, Workspace: allowed}, durationpb.New(commandTimeout+resultGrace))
}

// holdsHome reports whether a folder is or contains the user's home folder, or all files.
func holdsHome(root string) bool {
	home, err := os.UserHomeDir()
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	rel, relErr := filepath.Rel(root, home)
	return root == filepath.Dir(root) || err == nil && relErr == nil && filepath.IsLocal(rel)
}

// folderServer returns the workspace server with that id, and registers and activates it if needed.
func (s *Session) folderServer(ctx context.Context, id string, transport *mcppoolv1.BuiltinTransport, callTimeout *durationpb.Duration) (Folder, error) {
	server, err := s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: id})
	if status.Code(err) == codes.NotFound {
		transport.Name = WorkspaceID
		server, err = s.Pool.CreateMcpServer(ctx, &mcppoolv1.CreateMcpServerRequest{
			McpServerId: id,
			McpServer: &mcppoolv1.McpServer{
				DisplayName:   "workspace " + filepath.Base(transport.GetRoot()),
				Description:   "The files of " + transport.GetRoot(),
				OnlyWhenNamed: true, // only tasks started in that folder use it
				CallTimeout:   callTimeout,
				Transport:     &mcppoolv1.McpServer_Builtin{Builtin: transport},
			},
		})
		if status.Code(err) == codes.AlreadyExists { // another command was faster
			server, err = s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: id})
		}
	}
	if err != nil {
		return Folder{}, err
	}
	if found := server.GetBuiltin(); !isWorkspace(server) || found.GetRoot() != transport.GetRoot() || !proto.Equal(found.GetWorkspace(), transport.GetWorkspace()) {
		return Folder{}, ui.Errorf("MCP server %s is registered, but not for %s with the permissions of this command", id, transport.GetRoot()).
			Then("pawl mcp remove %s%s, so that the command registers it again", id, s.Flags())
	}
	return s.activeFolder(ctx, server)
}

// activeFolder activates a workspace server for the caller if needed.
func (s *Session) activeFolder(ctx context.Context, server *mcppoolv1.McpServer) (Folder, error) {
	if !server.GetActive() {
		if _, err := s.Pool.ActivateMcpServer(ctx, &mcppoolv1.ActivateMcpServerRequest{Id: server.GetId()}); err != nil {
			return Folder{}, err
		}
	}
	return Folder{id: server.GetId(), code: codePrefix(server.GetBuiltin().GetRoot())}, nil
}

// OtherFolder reports whether the server is the workspace server that a command registered for a folder other than the current one.
func OtherFolder(server *mcppoolv1.McpServer) bool {
	root := server.GetBuiltin().GetRoot()
	here, err := RealPath("")
	own := server.GetId() == folderID(root) || strings.HasPrefix(server.GetId(), codePrefix(root))
	return isWorkspace(server) && own && (err != nil || root != here)
}

// folderID returns the id of a folder's server: a readable slug with a hash.
func folderID(root string) string {
	sum := sha256.Sum256([]byte(root))
	slug := slugOf(filepath.Base(root), 40)
	if slug != "" {
		slug += "-"
	}
	return WorkspaceID + "-" + slug + hex.EncodeToString(sum[:3])
}

// codePrefix returns the beginning of the ids of a folder's servers that allow more than reading.
func codePrefix(root string) string {
	id := folderID(root)
	return id[:min(len(id)-7, 44)] + id[len(id)-7:] + "-code-"
}

// slugOf reduces a name to at most n lower-case letters, digits and hyphens.
func slugOf(name string, n int) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	slug := strings.Join(words, "-")
	return strings.Trim(slug[:min(len(slug), n)], "-")
}

// RealPath returns the absolute path of a folder with symbolic links resolved; "" is the current folder.
func RealPath(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", ui.Errorf("the folder cannot be used: %v", err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", ui.Errorf("%s is not a folder", abs)
	}
	return abs, nil
}

func isWorkspace(server *mcppoolv1.McpServer) bool {
	return server.GetBuiltin().GetName() == WorkspaceID
}

// servesFolder reports whether server is an enabled workspace server of the folder.
func servesFolder(server *mcppoolv1.McpServer, root string) bool {
	return isWorkspace(server) && !server.GetDisabled() && filepath.Clean(server.GetBuiltin().GetRoot()) == root
}

// Scope sets the MCP servers of a task: those that the task names; else the agent's, with this folder's if chosen is set; else this folder's and
// activeServers. chosen means that the person named the folder. Scope also resolves the alias WorkspaceID in the task's servers and playbook.
func (f Folder) Scope(ctx context.Context, s *Session, req *executorv1.CreateTaskRequest, chosen bool) error {
	req.Playbook = f.Playbook(req.GetPlaybook())
	if len(req.GetMcpIds()) > 0 {
		for i, id := range req.GetMcpIds() {
			req.McpIds[i] = f.Real(id)
		}
		return nil
	}
	if req.GetAgentId() != "" {
		agent, err := s.Agents.GetAgent(ctx, &executorv1.GetAgentRequest{Id: req.GetAgentId()})
		if err != nil {
			return err
		}
		if ids := agent.GetMcpIds(); len(ids) > 0 {
			if chosen {
				req.McpIds = append([]string{f.id}, slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == f.id })...)
			}
			return nil
		}
	}
	others, err := activeServers(ctx, s)
	req.McpIds = append([]string{f.id}, others...)
	return err
}

// activeServers returns the ids of the caller's active servers that tasks use without naming them, except workspace servers.
func activeServers(ctx context.Context, s *Session) ([]string, error) {
	list, err := All(ctx, s.Pool.ListMcpServers, &mcppoolv1.ListMcpServersRequest{ActiveOnly: true})
	var ids []string
	for _, s := range list.GetMcpServers() {
		if !isWorkspace(s) && !s.GetOnlyWhenNamed() {
			ids = append(ids, s.GetId())
		}
	}
	return ids, err
}

// Real resolves the alias WorkspaceID to the folder's server and returns any other id unchanged.
func (f Folder) Real(id string) string {
	if id == WorkspaceID && f.id != "" {
		return f.id
	}
	return id
}

// Alias replaces the folder's server in a tool's id by the alias WorkspaceID.
func (f Folder) Alias(toolID string) string {
	if name, ok := strings.CutPrefix(toolID, f.id+"/"); ok && f.id != "" {
		return WorkspaceID + "/" + name
	}
	return toolID
}

// TaskAlias is Alias that also replaces the folder's servers that allow more than reading. A task uses at most one of the folder's servers.
func (f Folder) TaskAlias(toolID string) string {
	if server, name, _ := strings.Cut(toolID, "/"); f.code != "" && strings.HasPrefix(server, f.code) {
		return WorkspaceID + "/" + name
	}
	return f.Alias(toolID)
}

// EnsureWorkspace finds or registers the current folder's workspace server if id is the alias WorkspaceID. For other ids, and on a named or
// shared server, it returns the zero Folder.
func (s *Session) EnsureWorkspace(ctx context.Context, id string) (Folder, error) {
	if id != WorkspaceID {
		return Folder{}, nil
	}
	server, err := s.Server(ctx)
	if err != nil || !server.Local() || s.Shared() {
		return Folder{}, err
	}
	return s.Workspace(ctx, "")
}

// KnownWorkspace returns the current folder's workspace server, without an id if it is not registered.
func (s *Session) KnownWorkspace(ctx context.Context) Folder {
	server, err := s.Server(ctx)
	if err != nil || !server.Local() {
		return Folder{}
	}
	root, err := RealPath("")
	if err != nil {
		return Folder{}
	}
	for _, id := range []string{WorkspaceID, folderID(root)} {
		server, err := s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: id})
		if err == nil && servesFolder(server, root) {
			return Folder{id: id, code: codePrefix(root)}
		}
	}
	return Folder{code: codePrefix(root)}
}

// Playbook replaces the server WorkspaceID in the tool ids of a playbook by this folder's server. All other bytes stay. Text that is not YAML
// stays too; the planner rejects it.
func (f Folder) Playbook(text string) string {
	var doc yaml.Node
	if f.id == WorkspaceID || f.id == "" || yaml.Unmarshal([]byte(text), &doc) != nil {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	for _, tool := range slices.Backward(stepTools(&doc)) { // from the end, so that a replacement shifts no later column
		line := []rune(lines[tool.Line-1])
		before, value := string(line[:tool.Column-1]), string(line[tool.Column-1:])
		name := strings.TrimLeft(value, `"'`)
		if rest, ok := strings.CutPrefix(name, WorkspaceID+"/"); ok {
			lines[tool.Line-1] = before + strings.TrimSuffix(value, name) + f.id + "/" + rest
		}
	}
	return strings.Join(lines, "")
}

// stepTools returns the nodes of all steps' `tool` values, in the order of the text.
func stepTools(n *yaml.Node) []*yaml.Node {
	var tools []*yaml.Node
	if n.Kind == yaml.DocumentNode {
		return stepTools(n.Content[0])
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		switch {
		case key == "tool" && value.Kind == yaml.ScalarNode:
			tools = append(tools, value)
		case (key == "steps" || key == "parallel") && value.Kind == yaml.SequenceNode:
			for _, step := range value.Content {
				tools = append(tools, stepTools(step)...)
			}
		}
	}
	return tools
}
