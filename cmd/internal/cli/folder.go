package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// workspaceID is the built-in server of a `pawl up`, and on the command line the one of the folder, whatever its id.
const workspaceID = "workspace"

// folder is the workspace server of one folder; its zero value is none.
type folder struct {
	id   string
	root string
}

// shared says that the session's server may have users who must not see each other's folders.
func shared(g *Globals, session *discover.Session) bool {
	return g.Key != "" && session.Server().Kind != discover.Embedded
}

// openFolder makes sure that the pool has a workspace server for dir ("": the current folder), active for the caller.
func (a *App) openFolder(ctx context.Context, session *discover.Session, dir string) (folder, error) {
	root, err := realPath(dir)
	if err != nil {
		return folder{}, err
	}
	pool := mcppoolv1.NewMcpPoolServiceClient(session)
	server, err := pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: workspaceID})
	if err != nil || !shows(server, root) {
		if server, err = folderServer(ctx, pool, root); err != nil {
			return folder{}, err
		}
	}
	if !server.GetActive() {
		if server, err = pool.ActivateMcpServer(ctx, &mcppoolv1.ActivateMcpServerRequest{Id: server.GetId()}); err != nil {
			return folder{}, err
		}
	}
	return folder{id: server.GetId(), root: root}, nil
}

// folderServer returns the folder's own server and registers it where it is not there yet.
func folderServer(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, root string) (*mcppoolv1.McpServer, error) {
	id := folderID(root)
	server, err := pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: id})
	if status.Code(err) != codes.NotFound {
		return server, err
	}
	server, err = pool.CreateMcpServer(ctx, &mcppoolv1.CreateMcpServerRequest{
		McpServerId: id,
		McpServer: &mcppoolv1.McpServer{
			DisplayName:   "workspace " + filepath.Base(root),
			Description:   "The files of " + root,
			OnlyWhenNamed: true, // it means something only where somebody stands in that folder
			Transport:     &mcppoolv1.McpServer_Builtin{Builtin: &mcppoolv1.BuiltinTransport{Name: workspaceID, Root: root}},
		},
	})
	if status.Code(err) == codes.AlreadyExists { // another command was faster
		return pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: id})
	}
	return server, err
}

// folderID names a folder's server: readable, and different for each folder.
func folderID(root string) string {
	sum := sha256.Sum256([]byte(root))
	slug := slugOf(filepath.Base(root), 40)
	if slug != "" {
		slug += "-"
	}
	return workspaceID + "-" + slug + hex.EncodeToString(sum[:3])
}

// slugOf makes lower-case letters, digits and hyphens of a name, at most n of them.
func slugOf(name string, n int) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	slug := b.String()
	return strings.Trim(slug[:min(len(slug), n)], "-")
}

func realPath(dir string) (string, error) {
	abs, err := filepath.Abs(dir) // "" is the current folder
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", exit.Newf("the folder cannot be used: %v", err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", exit.Newf("%s is not a folder", abs)
	}
	return abs, nil
}

func isWorkspace(server *mcppoolv1.McpServer) bool {
	return server.GetBuiltin().GetName() == workspaceID
}

func shows(server *mcppoolv1.McpServer, root string) bool {
	return isWorkspace(server) && !server.GetDisabled() && filepath.Clean(server.GetBuiltin().GetRoot()) == root
}

// scope makes the task use this folder and no other: with the servers that --mcp names, else with the agent's own ones,
// else with all that are active. chosen says that the person named the folder.
func (f folder) scope(ctx context.Context, session *discover.Session, req *executorv1.CreateTaskRequest, chosen bool) error {
	req.Playbook = f.playbook(req.GetPlaybook())
	if len(req.GetMcpIds()) > 0 {
		for i, id := range req.GetMcpIds() {
			req.McpIds[i] = f.real(id)
		}
		return nil
	}
	if req.GetAgentId() != "" {
		agent, err := executorv1.NewAgentServiceClient(session).GetAgent(ctx, &executorv1.GetAgentRequest{Id: req.GetAgentId()})
		if err != nil {
			return err
		}
		if ids := agent.GetMcpIds(); len(ids) > 0 {
			if chosen {
				req.McpIds = append([]string{f.id}, without(ids, f.id)...)
			}
			return nil
		}
	}
	others, err := activeServers(ctx, session)
	req.McpIds = append([]string{f.id}, others...)
	return err
}

// activeServers are the caller's active servers that show no folder.
func activeServers(ctx context.Context, session *discover.Session) ([]string, error) {
	servers, err := allServers(ctx, mcppoolv1.NewMcpPoolServiceClient(session), true)
	var ids []string
	for _, s := range servers {
		if !isWorkspace(s) && !s.GetOnlyWhenNamed() && !s.GetDisabled() {
			ids = append(ids, s.GetId())
		}
	}
	return ids, err
}

func without(ids []string, id string) []string {
	var rest []string
	for _, i := range ids {
		if i != id {
			rest = append(rest, i)
		}
	}
	return rest
}

// real is the server that an id on the command line means.
func (f folder) real(id string) string {
	if id == workspaceID && f.id != "" {
		return f.id
	}
	return id
}

// alias is how a tool of the folder is shown: the contrary of real.
func (f folder) alias(toolID string) string {
	if rest, ok := strings.CutPrefix(toolID, f.id+"/"); ok && f.id != "" {
		return workspaceID + "/" + rest
	}
	return toolID
}

// playbook makes the tools of `workspace` in a playbook those of this folder, line for line; also in `- {id: a, tool: …}`, where nothing
// before may be a text that only looks like it.
func (f folder) playbook(text string) string {
	if f.id == workspaceID || f.id == "" || text == "" {
		return text
	}
	tool := regexp.MustCompile(`(?m)^(\s*(?:-\s+)?(?:\{(?:[^"'{}]*,)?\s*)?tool:\s*["']?)` + workspaceID + `/`)
	return tool.ReplaceAllString(text, "${1}"+f.id+"/")
}

// knownFolder is the current folder's server if it is registered already; it makes none and fails never, for it only
// serves to show shorter names.
func (a *App) knownFolder(ctx context.Context, session *discover.Session) folder {
	root, err := realPath("")
	if err != nil || !session.Server().Local() {
		return folder{}
	}
	pool := mcppoolv1.NewMcpPoolServiceClient(session)
	for _, id := range []string{workspaceID, folderID(root)} {
		server, err := pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: id})
		if err == nil && shows(server, root) {
			return folder{id: id, root: root}
		}
	}
	return folder{}
}
