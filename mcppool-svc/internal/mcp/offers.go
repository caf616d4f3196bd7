package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/sync/semaphore"

	"pawl.dev/services/strictjson"
)

// listAge is how long a cached list is used if the server reports no change: notifications can get lost over HTTP, and some servers send none.
const listAge = time.Minute

// offers holds the lists other than tools, and the subscriptions, of a connection.
type offers struct {
	mu      sync.Mutex
	lists   [tools]*cachedList // guarded by mu; by List; nil if never read
	changed func()             // guarded by mu; set by OnChange; may be nil

	openStream func(context.Context) error // guarded by mu; opens and reads the stream of changes, over HTTP or since 2026-07-28; nil if none
	endStream  context.CancelFunc          // guarded by mu; closes the stream; nil while it is not open

	// agreed holds a func(mcp.SubscriptionFilter) for each subscriptions/listen request in progress, by its id (int64). The func gets the
	// filter that the server agreed to.
	agreed     sync.Map
	subscribed map[string]*subscribers // guarded by mu; by address
	// subscribing is held while the server is asked to begin or end a subscription, so that the requests arrive in order.
	subscribing *semaphore.Weighted
}

// cachedList is a list as it was read.
type cachedList struct {
	time    time.Time // zero if it is outdated
	entries []json.RawMessage
}

func (c *client) OnChange(changed func()) {
	c.offers.mu.Lock()
	defer c.offers.mu.Unlock()
	c.offers.changed = changed
}

// onListsChanged handles the server's notification that lists changed.
func (o *offers) onListsChanged(lists ...List) {
	o.outdate(lists...)
	o.mu.Lock()
	changed := o.changed
	o.mu.Unlock()
	if changed != nil {
		changed()
	}
}

func (o *offers) outdate(lists ...List) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range lists {
		o.lists[l] = new(cachedList)
	}
}

func (c *client) List(ctx context.Context, list List) ([]json.RawMessage, error) {
	o := &c.offers
	o.mu.Lock()
	known := o.lists[list]
	o.mu.Unlock()
	if known != nil && time.Since(known.time) < listAge {
		return known.entries, nil
	}
	entries, err := c.collect(ctx, list)
	if err != nil {
		return nil, err
	}
	entries = slices.Clip(entries)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lists[list] == known { // it did not change meanwhile
		o.lists[list] = &cachedList{time: time.Now(), entries: entries}
	}
	return entries, nil
}

// Query is a request other than a tool call or a list.
type Query struct {
	method, name string
	params       map[string]any
}

// ReadResource is the query for a resource (resources/read).
func ReadResource(uri string) Query {
	return Query{string(mcp.MethodResourcesRead), uri, map[string]any{"uri": uri}}
}

// GetPrompt is the query for a prompt with its arguments filled in (prompts/get).
func GetPrompt(name string, arguments map[string]string) Query {
	params := map[string]any{"name": name}
	if len(arguments) > 0 {
		params["arguments"] = arguments
	}
	return Query{string(mcp.MethodPromptsGet), name, params}
}

// Query is the query for the values of the argument (completion/complete).
func (c Completion) Query() Query {
	var ref any = mcp.PromptReference{Type: "ref/prompt", Name: c.Prompt}
	if c.URITemplate != "" {
		ref = mcp.ResourceReference{Type: "ref/resource", URI: c.URITemplate}
	}
	params := map[string]any{"ref": ref, "argument": mcp.CompleteArgument{Name: c.Argument, Value: c.Value}}
	if len(c.Context) > 0 {
		params["context"] = mcp.CompleteContext{Arguments: c.Context}
	}
	return Query{string(mcp.MethodCompletionComplete), "", params}
}

// Get implements Offers. It returns an error if the server asks for input first.
func (c *client) Get(ctx context.Context, q Query) (json.RawMessage, error) {
	raw, err := c.request(ctx, q.method, q.name, q.params)
	if err == nil && stringOf(unfinished(raw)["resultType"]) == "input_required" {
		return nil, endedf(Protocol, "the server asks for input in answer to %s; only tool calls support that", q.method)
	}
	return raw, err
}

// Probe implements Client: it sends a ping, or server/discover in revisions without ping.
func (c *client) Probe(ctx context.Context) error {
	method := string(mcp.MethodPing)
	if c.isModern() {
		method = methodDiscover
	}
	_, err := c.request(ctx, method, "", nil)
	status, ok := errors.AsType[*statusError](err)
	switch {
	case err == nil, As(err).Kind == Answered:
		return nil // any answer counts, even "method not found"
	case ok && status.status == http.StatusTooManyRequests:
		return nil // so does HTTP 429
	}
	return err
}

// Bounds of each list.
const (
	maxListed = 10_000 // entries
	maxPages  = 1_000
)

// List names a list that a server has.
type List int

// The lists.
const (
	Resources List = iota
	ResourceTemplates
	Prompts
	tools // which Client.ListTools returns
)

// listings holds for each list the method that reads it, the member of the result that holds the entries, and the limit in bytes of all entries.
var listings = [...]struct {
	method, key string
	bytes       int
}{
	Resources:         {"resources/list", "resources", 8 << 20},
	ResourceTemplates: {"resources/templates/list", "resourceTemplates", 8 << 20},
	Prompts:           {"prompts/list", "prompts", 8 << 20},
	tools:             {"tools/list", "tools", 16 << 20},
}

// String returns the list's method.
func (l List) String() string { return listings[l].method }

func (c *client) ListTools(ctx context.Context) ([]json.RawMessage, error) {
	definitions, err := c.collect(ctx, tools)
	if _, http := c.wire.(*web); err != nil || !http || !c.isModern() {
		return definitions, err
	}
	return c.readMirrors(ctx, definitions), nil
}

// readMirrors stores the tools with inputs that are mirrored into HTTP headers (x-mcp-header), for toolRequest. It returns the definitions
// without the tools whose x-mcp-header annotations are not valid, as the specification requires.
func (c *client) readMirrors(ctx context.Context, definitions []json.RawMessage) []json.RawMessage {
	valid, mirrors := make([]json.RawMessage, 0, len(definitions)), make(map[string]mcp.Tool)
	for _, raw := range definitions {
		var tool mcp.Tool
		mayHave := bytes.Contains(raw, []byte("x-mcp-header")) || bytes.Contains(raw, []byte(`\u`)) // the key may be written with escapes
		if !mayHave || json.Unmarshal(raw, &tool) != nil {                                          // the catalog reports definitions that cannot be read
			valid = append(valid, raw)
			continue
		}
		if err := mcp.ValidateParamHeaderAnnotations(&tool); err != nil {
			c.log.WarnContext(ctx, "a tool of an MCP server is left out: its x-mcp-header annotations are not valid",
				"mcp_id", c.server.ID, "tool", Cut(tool.Name), "error", err)
			continue
		}
		mirrors[tool.Name] = tool
		valid = append(valid, raw)
	}
	c.mirrors.Store(&mirrors)
	return valid
}

// collect reads all pages of a list.
func (c *client) collect(ctx context.Context, l List) ([]json.RawMessage, error) {
	var all []json.RawMessage
	var size int
	cursors := make(map[string]bool)
	for cursor := ""; ; {
		page, next, err := c.listPage(ctx, l, cursor)
		if err != nil {
			return nil, err
		}
		for _, entry := range page {
			size += len(entry)
		}
		if all = append(all, page...); len(all) > maxListed || size > listings[l].bytes {
			return nil, sentf(TooLarge, "the server offers more than %d %s or %d MiB of definitions", maxListed, listings[l].key, listings[l].bytes>>20)
		}
		if next == "" {
			return all, nil
		}
		if cursors[next] || len(cursors) >= maxPages {
			return nil, sentf(Protocol, "the server's %s has no end: %d pages, or a cursor twice", l, len(cursors)+1)
		}
		cursors[next] = true
		cursor = next
	}
}

// listPage reads one page. It returns the raw entries, and the cursor of the next page or "".
func (c *client) listPage(ctx context.Context, l List, cursor string) (entries []json.RawMessage, next string, err error) {
	var params map[string]any
	if cursor != "" {
		params = map[string]any{"cursor": cursor}
	}
	raw, err := c.request(ctx, l.String(), "", params)
	if err != nil {
		e := As(err)
		if e.Kind == Answered && e.Code == mcp.METHOD_NOT_FOUND {
			return nil, "", nil // the server has no such list
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && e.Kind == Interrupted {
			e.Message = "the server did not answer " + l.String() + " in time"
		}
		return nil, "", e
	}
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, "", sentf(Protocol, "the result of %s is not an object: %w", l, err)
	}
	if err := json.Unmarshal(fields[listings[l].key], &entries); err != nil {
		return nil, "", sentf(Protocol, "the result of %s has no array `%s`: %w", l, listings[l].key, err)
	}
	if cursor := fields["nextCursor"]; !strictjson.Absent(cursor) {
		if err := json.Unmarshal(cursor, &next); err != nil {
			return nil, "", sentf(Protocol, "`nextCursor` of %s is not a string: %w", l, err)
		}
	}
	return entries, next, nil
}
