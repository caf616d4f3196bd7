package mcpserver

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/strictjson"
)

const (
	// ttl is how long clients may keep lists without asking again.
	ttl = 5 * time.Second
	// pageSize is about how many entries a page has; a page of one server is the pool's.
	pageSize = 200
	// listWait is how long a list of all servers waits for each of them. A server that is slow to start is in the next list.
	listWait = 10 * time.Second
	// listsAtOnce bounds the servers that are asked at once for one list.
	listsAtOnce = 8
)

// list is one of MCP's lists.
type list struct {
	key   string // of the entries in the result
	named string // the member of an entry with the name or URI
	page  func(q *request, ctx context.Context, server, token string) (entries []string, next string, err error)
}

var (
	toolList = list{"tools", "name", func(q *request, ctx context.Context, server, token string) ([]string, string, error) {
		page, err := q.pool.ListTools(ctx, &mcppoolv1.ListToolsRequest{McpId: server, PageToken: token, PageSize: pageSize, Exact: true})
		return page.GetDefinitionsJson(), page.GetNextPageToken(), err
	}}
	resourceList = list{"resources", "uri", func(q *request, ctx context.Context, server, token string) ([]string, string, error) {
		page, err := q.pool.ListResources(ctx, &mcppoolv1.ListResourcesRequest{McpId: server, PageToken: token, PageSize: pageSize, Exact: true})
		return page.GetEntriesJson(), page.GetNextPageToken(), err
	}}
	templateList = list{"resourceTemplates", "uriTemplate", func(q *request, ctx context.Context, server, token string) ([]string, string, error) {
		page, err := q.pool.ListResourceTemplates(ctx, &mcppoolv1.ListResourceTemplatesRequest{McpId: server, PageToken: token, PageSize: pageSize, Exact: true})
		return page.GetEntriesJson(), page.GetNextPageToken(), err
	}}
	promptList = list{"prompts", "name", func(q *request, ctx context.Context, server, token string) ([]string, string, error) {
		page, err := q.pool.ListPrompts(ctx, &mcppoolv1.ListPromptsRequest{McpId: server, PageToken: token, PageSize: pageSize, Exact: true})
		return page.GetEntriesJson(), page.GetNextPageToken(), err
	}}
)

// serve answers with a page of the list.
func (l list) serve(q *request) error {
	cursor := q.params.text("cursor")
	var entries []string
	var next string
	var err error
	switch {
	case l.key == toolList.key && q.search:
		entries = slices.Collect(strictjson.Items(strictjson.Compact(searchDefinitions)))
	case q.server != "":
		entries, next, err = l.page(q, q.Context(), q.server, cursor)
	default:
		entries, next, err = l.pageOfAll(q, cursor)
	}
	if err != nil {
		return err
	}
	if l.key == toolList.key && q.server == "" && cursor == "" {
		entries = slices.AppendSeq(entries, strictjson.Items(strictjson.Compact(ownDefinitions)))
	}
	result := `{"` + l.key + `":` + strictjson.Array(entries)
	if next != "" {
		result += `,"nextCursor":` + strictjson.Quote(next)
	}
	if q.modern {
		result += `,` + cacheHints
	}
	return q.reply(result + "}")
}

// cacheHints tell clients that a result is for one user, and may be kept for ttl.
const cacheHints = `"ttlMs":5000,"cacheScope":"private"`

// pageOfAll returns a page of the lists of all servers, in the order of their ids. The cursor names a server and the page of its list. A server that
// cannot be reached is left out.
func (l list) pageOfAll(q *request, cursor string) (entries []string, next string, err error) {
	first, token, err := openCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	servers, err := q.servers()
	if err != nil {
		return nil, "", err
	}
	for len(servers) > 0 && servers[0] < first {
		servers = servers[1:]
	}
	pages := l.pages(q, servers, first, token, false)
	for i, server := range servers {
		for _, entry := range pages[i].entries {
			if renamed, ok := rename(entry, l.named, server); ok {
				entries = append(entries, renamed)
			}
		}
		switch {
		case pages[i].next != "":
			return entries, cursorOf(server, pages[i].next), nil
		case len(entries) >= pageSize && i+1 < len(servers):
			return entries, cursorOf(servers[i+1], ""), nil
		}
	}
	return entries, "", nil
}

type listPage struct {
	entries []string
	next    string
	err     error
}

// pages returns the first page of each server's list, or the one of the token for the server first. If whole is set, it returns the whole lists.
func (l list) pages(q *request, servers []string, first, token string, whole bool) []listPage {
	pages := make([]listPage, len(servers))
	var group errgroup.Group
	group.SetLimit(listsAtOnce)
	for i, server := range servers {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(q.Context(), listWait)
			defer cancel()
			p := &pages[i]
			if server == first {
				p.next = token
			}
			for more := true; more; more = whole && p.err == nil && p.next != "" {
				var entries []string
				entries, p.next, p.err = l.page(q, ctx, server, p.next)
				p.entries = append(p.entries, entries...)
			}
			if p.err != nil {
				q.cfg.Log.WarnContext(ctx, "a server is left out of a list", "mcp_id", server, "list", l.key, "error", p.err)
				*p = listPage{err: p.err}
			}
			return nil
		})
	}
	_ = group.Wait() // never fails
	return pages
}

// servers returns the ids of the servers that are served as one, in their order: those that a task of the caller uses without naming them.
func (q *request) servers() (ids []string, err error) {
	req := &mcppoolv1.ListMcpServersRequest{PageSize: 1000}
	for {
		page, err := q.pool.ListMcpServers(q.Context(), req)
		if err != nil {
			return nil, err
		}
		for _, s := range page.GetMcpServers() {
			if s.GetActive() && !s.GetDisabled() && !s.GetOnlyWhenNamed() {
				ids = append(ids, s.GetId())
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return ids, nil
		}
	}
}

func cursorOf(server, token string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(server + "\n" + token))
}

func openCursor(cursor string) (server, token string, err error) {
	if cursor == "" {
		return "", "", nil
	}
	data, failed := base64.RawURLEncoding.DecodeString(cursor)
	server, token, ok := strings.Cut(string(data), "\n")
	if failed != nil || !ok {
		return "", "", errorf(invalidParams, "params.cursor is none of this list; start again without it")
	}
	return server, token, nil
}

const (
	// separator stands between a server's id and the name of its tool or prompt.
	separator = "__"
	// uriScheme begins the URI of a server's resource: pawl:<id>:<uri>.
	uriScheme = "pawl:"
	// appScheme is that of MCP Apps. Tools name such resources in _meta, so their URIs stay as they are.
	appScheme = "ui://"
)

// publicName returns the name or URI, by the member that holds it, of an entry of a server where all servers are served as one.
func publicName(member, server, name string) string {
	switch {
	case member == "name":
		return server + separator + name
	case strings.HasPrefix(name, appScheme):
		return name
	}
	return uriScheme + server + ":" + name
}

// rename returns an object with the public name in the member.
func rename(object, member, server string) (string, bool) {
	o, err := strictjson.ParseObject(object)
	if err != nil {
		return "", false
	}
	if raw, ok := o.Get(member); ok && strictjson.Kind(raw) == "string" {
		o.Set(member, strictjson.Quote(publicName(member, server, strictjson.UnquoteString([]byte(raw)))))
	}
	return o.String(), true
}

// resolve returns the server and the bare name of a tool or prompt.
func (q *request) resolve(name string) (server, bare string, err error) {
	if q.server != "" {
		return q.server, name, nil
	}
	server, bare, ok := strings.Cut(name, separator)
	if ok && strings.Contains(bare, separator) { // an id may have two underscores, too: the longest one counts
		ids, err := q.servers()
		if err != nil {
			return "", "", err
		}
		server = ""
		for _, id := range ids {
			if rest, found := strings.CutPrefix(name, id+separator); found && len(id) > len(server) {
				server, bare = id, rest
			}
		}
	}
	if !ok || server == "" || bare == "" {
		return "", "", errorf(invalidParams, "unknown name %.200q; names are <server>%s<name> here, as in the list", name, separator)
	}
	return server, bare, nil
}

// resolveURI returns the server and the URI of a resource there.
func (q *request) resolveURI(uri string) (server, bare string, err error) {
	if q.server != "" {
		return q.server, uri, nil
	}
	if rest, ok := strings.CutPrefix(uri, uriScheme); ok {
		if server, bare, ok = strings.Cut(rest, ":"); ok {
			return server, bare, nil
		}
	}
	if strings.HasPrefix(uri, appScheme) {
		if server := q.findResource(uri); server != "" {
			return server, uri, nil
		}
	}
	return "", "", notFound(uri)
}

func notFound(uri string) error {
	e := errorf(resourceNotFound, "unknown resource %.200q", uri)
	e.Data = map[string]string{"uri": uri}
	return e
}

// findResource returns the first server that lists a resource.
func (q *request) findResource(uri string) string {
	servers, err := q.servers()
	if err != nil {
		return ""
	}
	for _, server := range servers {
		for token := ""; ; {
			entries, next, err := resourceList.page(q, q.Context(), server, token)
			for _, entry := range entries {
				if fieldsOf(entry).text("uri") == uri {
					return server
				}
			}
			if token = next; err != nil || next == "" {
				break
			}
		}
	}
	return ""
}
