package workspace

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/sandbox"
	"pawl.dev/services/conf"
)

// maxWalkEntries bounds one search or recursive listing: far above any source
// tree, low enough that a search of a whole disk ends.
const maxWalkEntries = 1_000_000

// Options are what a workspace allows beside reading and searching its folder. The zero value allows nothing, and a limit of 0 is the default. The tags
// describe the flags of `pawl mcp workspace`.
type Options struct {
	Write          bool          `help:"Also offer tools that change files, and run_tests."`
	Commands       []string      `name:"command" sep:"," placeholder:"NAME" help:"A program (argv[0]) that execute_command may run, such as go. Without one, the tool is not offered."`
	Network        bool          `help:"Let programs use all networks. They then also reach servers on this computer, such as Pawl."`
	CommandTimeout time.Duration `placeholder:"TIME" help:"The longest time that a program may run (2 minutes)."`

	// Limits of a program together with all that it starts, see sandbox.Command.
	MaxMemory    int64 `name:"max-memory-bytes" placeholder:"N" help:"Linux: the memory of a program with all that it starts (three quarters of the computer's)."`
	MaxProcesses int   `placeholder:"N" help:"Linux: the processes and threads of a program with all that it starts (8192)."`
	MaxFileSize  int64 `name:"max-file-bytes" placeholder:"N" help:"Linux: the size of each file that a program writes (16 GiB)."`
}

// Server serves the tools of one workspace. It is safe for concurrent use.
type Server struct {
	root      *os.Root
	options   Options
	path      string   // the root's absolute path; symbolic links are not resolved
	aliases   []string // path, and the path with links resolved if it differs: requests may use both
	mcp       *server.MCPServer
	walkLimit int
	sessions  atomic.Int64 // numbers the stdio sessions
	scratch   scratch
}

// NewServer opens the folder root. The caller closes the server.
func NewServer(root string, o Options) (*Server, error) {
	if root == "" {
		return nil, errors.New("open workspace: no folder was given; name the folder to serve")
	}
	if min(o.MaxMemory, int64(o.MaxProcesses), o.MaxFileSize, int64(o.CommandTimeout)) < 0 {
		return nil, fmt.Errorf("open workspace %q: a limit is negative; leave it out for the default", root)
	}
	path, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open workspace %q: %w", root, err)
	}
	handle, err := os.OpenRoot(path)
	if err != nil {
		return nil, openError(path, err)
	}
	s := &Server{root: handle, options: o, path: path, aliases: []string{path}, walkLimit: maxWalkEntries}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		s.aliases = append(s.aliases, real)
	}
	if s.mcp, err = s.newMCP(); err != nil {
		return nil, errors.Join(err, handle.Close())
	}
	return s, nil
}

// Root returns the absolute path of the workspace.
func (s *Server) Root() string { return s.path }

// MCP returns the MCP server. The caller chooses its transport.
func (s *Server) MCP() *server.MCPServer { return s.mcp }

// Close closes the folder and removes the temporary files of programs. Later tool calls fail.
func (s *Server) Close() error { return errors.Join(s.root.Close(), s.scratch.remove()) }

func openError(path string, err error) error {
	info, statErr := os.Stat(path)
	switch {
	case statErr == nil && !info.IsDir():
		return fmt.Errorf("open workspace %q: it is a file: name the folder that holds it", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open workspace %q: it does not exist: create the folder or name another: %w", path, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("open workspace %q: no permission to read it: change its permissions or name another folder: %w", path, fs.ErrPermission)
	}
	return fmt.Errorf("open workspace %q: %w", path, err)
}

func (s *Server) newMCP() (*server.MCPServer, error) {
	m := server.NewMCPServer("pawl-workspace", conf.Version(),
		server.WithTitle("Pawl workspace"),
		server.WithInstructions(s.instructions()),
		server.WithToolCapabilities(false),
		server.WithInputSchemaValidation(),
		server.WithRecovery(),
	)
	tools, err := definitions()
	if err != nil {
		return nil, err
	}
	handlers := s.handlers()
	for _, tool := range tools {
		if handler := handlers[tool.Name]; handler != nil {
			tool.Description += s.limits(tool.Name)
			m.AddTool(tool, handler)
		}
	}
	return m, nil
}

// handlers returns the tools that the options allow, by name.
func (s *Server) handlers() map[string]server.ToolHandlerFunc {
	allowed := map[string]server.ToolHandlerFunc{
		"list_directory": handle(s.listDirectory),
		"read_file":      handle(s.readFile),
		"get_file_info":  handle(s.getFileInfo),
		"search_files":   handle(s.searchFiles),
		"search_code":    handle(s.searchCode),
	}
	if s.options.Write {
		maps.Copy(allowed, map[string]server.ToolHandlerFunc{
			"write_file":       changing(s, s.planWrite),
			"apply_patch":      changing(s, s.planPatch),
			"create_directory": changing(s, s.planCreateDirectory),
			"move_file":        changing(s, s.planMove),
			"delete_file":      changing(s, s.planDelete),
			"list_backups":     handle(s.listBackups),
			"restore_file":     changing(s, s.planRestore),
			"run_tests":        handle(s.runTests),
			"git_status":       handle(s.gitStatus),
			"git_diff":         handle(s.gitDiff),
		})
	}
	if len(s.options.Commands) > 0 {
		allowed["execute_command"] = handle(s.executeCommand)
	}
	return allowed
}

// limits returns what the description of a tool says of this workspace's limits on programs.
func (s *Server) limits(tool string) string {
	if tool != "execute_command" && tool != "run_tests" {
		return ""
	}
	text := fmt.Sprintf(" It may run for %v. The sandbox here: %s.", s.longest(), sandbox.Describe(s.options.Network))
	if tool == "execute_command" {
		text += " Programs that may be run: " + strings.Join(s.options.Commands, ", ") + "."
	}
	return text
}

// instructions tells models how to use the tools that the options allow.
func (s *Server) instructions() string {
	access, change := "Read-only access", ""
	if s.options.Write {
		access = "Access"
		change = " Read a file before you change it with apply_patch or write_file; backups are kept."
	}
	return access + " to one folder, the workspace. Paths are relative to its root and use slashes; the root is \".\". " +
		"Start with list_directory, search_files or search_code to find things, then read_file." + change
}

// output is the structured content of a result. text returns its content as text.
type output interface{ text() string }

// handle turns a typed tool into an MCP handler. It returns errors as tool
// results, because models read only those.
func handle[In any, Out output](run func(context.Context, In, reporter) (Out, error)) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in In
		// Bind the decoded arguments, which mcp-go has validated; in them 1.0 is 1.
		req.Params.RawArguments = nil
		if err := req.BindArguments(&in); err != nil {
			return mcp.NewToolResultErrorf("the arguments do not fit the input schema: %v", err), nil
		}
		out, err := run(ctx, in, reporterOf(ctx, req))
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultStructured(out, out.text()), nil
	}
}

// Each file is one entry of tools/list, as clients see it.
//
//go:embed definitions/*.json
var definitionFiles embed.FS

// definitions returns the tools in the order of their file names. The schemas
// stay raw, because mcp.Tool drops the keywords that it does not know.
func definitions() ([]mcp.Tool, error) {
	files, err := definitionFiles.ReadDir("definitions")
	if err != nil {
		return nil, fmt.Errorf("read the workspace tools' definitions: %w", err)
	}
	tools := make([]mcp.Tool, 0, len(files))
	for _, file := range files {
		raw, err := definitionFiles.ReadFile(path.Join("definitions", file.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the workspace tools' definitions: %w", err)
		}
		tool, err := parseDefinition(raw)
		if err != nil {
			return nil, fmt.Errorf("workspace tool definition %s: %w", file.Name(), err)
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

func parseDefinition(raw []byte) (tool mcp.Tool, err error) {
	var schemas struct {
		Input  json.RawMessage `json:"inputSchema"`
		Output json.RawMessage `json:"outputSchema"`
	}
	if err := errors.Join(json.Unmarshal(raw, &tool), json.Unmarshal(raw, &schemas)); err != nil {
		return mcp.Tool{}, err
	}
	tool.InputSchema, tool.OutputSchema = mcp.ToolInputSchema{}, mcp.ToolOutputSchema{}
	tool.RawInputSchema, tool.RawOutputSchema = schemas.Input, schemas.Output
	return tool, nil
}

// progressEvery is the number of files between two progress notifications.
const progressEvery = 1000

// reporter reports how far a call is, as a number that only grows and in words.
type reporter func(done int, message string)

// reporterOf returns a reporter that sends progress notifications if the client asked for them. It drops
// notifications that cannot be delivered.
func reporterOf(ctx context.Context, req mcp.CallToolRequest) reporter {
	if req.Params.Meta == nil || req.Params.Meta.ProgressToken == nil {
		return func(int, string) {}
	}
	srv, token := server.ServerFromContext(ctx), req.Params.Meta.ProgressToken
	return func(done int, message string) {
		_ = srv.SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), map[string]any{
			"progressToken": token,
			"progress":      done,
			"message":       message,
		})
	}
}
