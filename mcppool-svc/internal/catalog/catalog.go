package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sync/singleflight"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"
)

// Catalog holds the tools of a server at one time. It is immutable, and connections with equal lists share it.
type Catalog struct {
	Tools []*Tool // sorted by name
	// Skipped names the tools that were left out, each with the reason.
	Skipped []string
	// Digest is a hash of the definitions in Tools, whatever their order in the server's list.
	Digest [sha256.Size]byte
	// Derived holds what users of the catalog derive from it, by keys of their own types.
	Derived sync.Map
}

// Find returns a tool by its exact name, or nil.
func (c *Catalog) Find(name string) *Tool {
	i, ok := slices.BinarySearchFunc(c.Tools, name, func(t *Tool, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return nil
	}
	return c.Tools[i]
}

// Read returns the catalog of raw definitions. It returns an *mcp.Error if a definition cannot be read, or if two tools have the
// same name.
func Read(raw []json.RawMessage) (*Catalog, error) { return NewInterner().read(raw) }

// read returns the catalog of raw definitions, shared if there already is one of the same list.
func (k *Interner) read(raw []json.RawMessage) (*Catalog, error) {
	hashes, list := make([]string, len(raw)), sha256.New()
	for i, r := range raw {
		sum := sha256.Sum256(r)
		list.Write(sum[:])
		hashes[i] = hex.EncodeToString(sum[:])
	}
	key := string(list.Sum(nil))
	if shared := k.catalogs.get(key); shared != nil {
		return shared, nil
	}
	c := &Catalog{Tools: make([]*Tool, 0, len(raw))}
	for i, r := range raw {
		t, err := k.tool(hashes[i], r)
		if skipped := (*skippedError)(nil); errors.As(err, &skipped) {
			c.Skipped = append(c.Skipped, skipped.Error())
			continue
		}
		if err != nil {
			return nil, protocolError("the server's tool list cannot be used: %w", err)
		}
		c.Tools = append(c.Tools, t)
	}
	h := sha256.New()
	slices.SortFunc(c.Tools, func(a, b *Tool) int { return cmp.Compare(a.Name, b.Name) })
	for i := range c.Tools {
		h.Write([]byte(c.Tools[i].Hash))
		if i > 0 && c.Tools[i].Name == c.Tools[i-1].Name {
			return nil, protocolError("the server's tool list cannot be used: two tools have the name %q", c.Tools[i].Name)
		}
	}
	h.Sum(c.Digest[:0])
	return k.catalogs.put(key, c), nil
}

const (
	// maxName is the longest tool name that the API accepts.
	maxName = 512
	// maxDefinition bounds a definition in bytes. It is the size limit of a schema, and fits into one response.
	maxDefinition = 1 << 20
)

// TaskSupport is a tool's execution.taskSupport (MCP revision 2025-11-25).
type TaskSupport string

// The values that mean support; any other value means none.
const (
	TaskOptional TaskSupport = "optional"
	TaskRequired TaskSupport = "required"
)

// Tool is one tool of a server.
type Tool struct {
	Name, Title, Description string
	// Input and Output are JSON Schemas, exactly as sent; Output is empty if none.
	Input, Output string
	Hints         registry.Hints
	Tasks         TaskSupport
	// Raw is the definition, exactly as sent; Hash is its SHA-256 (hex).
	Raw, Hash string

	input, output atomic.Pointer[schema.Schema] // once compiled
}

// InputSchema returns Input, compiled. Errors are those of schema.Compile.
func (t *Tool) InputSchema() (*schema.Schema, error) { return compileOnce(&t.input, t.Input) }

// OutputSchema returns Output, compiled; it accepts everything if Output is empty.
func (t *Tool) OutputSchema() (*schema.Schema, error) { return compileOnce(&t.output, t.Output) }

// compileOnce compiles a schema at the first use and caches it with the tool: a lookup in schema's cache would hash the whole text.
func compileOnce(cached *atomic.Pointer[schema.Schema], raw string) (*schema.Schema, error) {
	if s := cached.Load(); s != nil {
		return s, nil
	}
	s, err := schema.Compile(raw)
	if err == nil {
		cached.Store(s)
	}
	return s, err
}

// Matches reports whether name, title and description together contain all the words, which must be in lower case.
func (t *Tool) Matches(words []string) bool {
	if len(words) == 0 {
		return true // the usual request: all tools
	}
	text := strings.ToLower(t.Name + "\n" + t.Title + "\n" + t.Description)
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// parse reads one definition with this hash.
func parse(hash string, raw json.RawMessage) (*Tool, error) {
	if len(raw) > maxDefinition {
		return nil, fmt.Errorf("a tool definition has more than %d MiB", maxDefinition>>20)
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("a tool definition is not valid UTF-8")
	}
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, fmt.Errorf("a tool definition cannot be read: %w", err)
	}
	t := &Tool{Raw: string(raw), Hash: hash}
	if err := readText(fields, "name", &t.Name); err != nil {
		return nil, err
	}
	if t.Name == "" || len(t.Name) > maxName {
		return nil, fmt.Errorf("a tool has no name, or one of more than %d bytes", maxName)
	}
	if strings.ContainsFunc(t.Name, isDeceptive) {
		return nil, &skippedError{t.Name}
	}
	if err := t.describe(fields); err != nil {
		return nil, fmt.Errorf("tool %q: %w", t.Name, err)
	}
	return t, nil
}

// skippedError reports a tool that is left out while the others can be used.
type skippedError struct{ name string }

func (e *skippedError) Error() string {
	return fmt.Sprintf("%+.100q has control or invisible characters in its name, so that people could take it for another tool", e.name)
}

// isDeceptive reports whether a character of a name can hide or reorder what a person reads: control characters, format characters
// such as bidirectional overrides, and separators of lines.
func isDeceptive(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// describe sets title, description, schemas, task support and hints from a definition.
func (t *Tool) describe(fields map[string]json.RawMessage) error {
	if err := readText(fields, "title", &t.Title); err != nil {
		return err
	}
	if err := readText(fields, "description", &t.Description); err != nil {
		return err
	}
	t.Input, t.Output = schemaText(fields["inputSchema"]), schemaText(fields["outputSchema"])
	if execution, err := strictjson.MemberMap(fields["execution"]); err == nil {
		var support string
		if readText(execution, "taskSupport", &support) == nil {
			t.Tasks = TaskSupport(support)
		}
	}
	if strictjson.Absent(fields["annotations"]) {
		return nil
	}
	hints, err := strictjson.MemberMap(fields["annotations"])
	if err != nil {
		return fmt.Errorf("its annotations: %w", err)
	}
	if t.Title == "" {
		if err := readText(hints, "title", &t.Title); err != nil {
			return err
		}
	}
	t.Hints = registry.Hints{
		ReadOnly: flag(hints["readOnlyHint"]), Destructive: flag(hints["destructiveHint"]), Idempotent: flag(hints["idempotentHint"]),
	}
	return nil
}

// flag reads a hint. It returns nil if the value is not a boolean.
func flag(raw json.RawMessage) *bool {
	var b bool
	if strictjson.Absent(raw) || json.Unmarshal(raw, &b) != nil {
		return nil
	}
	return &b
}

func schemaText(raw json.RawMessage) string {
	if strictjson.Absent(raw) {
		return ""
	}
	return string(raw)
}

func readText(fields map[string]json.RawMessage, key string, to *string) error {
	if strictjson.Absent(fields[key]) {
		return nil
	}
	if err := json.Unmarshal(fields[key], to); err != nil {
		return fmt.Errorf("`%s` is not a string", key)
	}
	return nil
}

func protocolError(format string, args ...any) *mcp.Error {
	e := mcp.Errorf(mcp.Protocol, format, args...)
	e.MayHaveRun = true // the server got tools/list; call.Explain reports that no tool ran
	return e
}

const (
	// listLimit bounds the time for all pages of a list.
	listLimit = 60 * time.Second
	// MaxAge is the age from which tools are listed again in any case: change notifications can get lost over HTTP.
	MaxAge = 5 * time.Minute
	// retryAge is the age from which tools are listed again if a tool is missing or the caller wants a fresh list.
	retryAge = 2 * time.Second
)

// Source lists tool definitions. An mcp.Client is one.
type Source interface {
	ListTools(ctx context.Context) ([]json.RawMessage, error)
	ToolsVersion() uint64
}

// Cache keeps the catalog of one connection.
type Cache struct {
	source   Source
	interner *Interner

	lists singleflight.Group // by version

	mu      sync.Mutex
	current *Catalog  // guarded by mu
	listed  time.Time // guarded by mu; when current was listed
	version uint64    // guarded by mu; ToolsVersion before current was listed
}

// NewCache returns a cache over a connection.
func NewCache(source Source, interner *Interner) *Cache {
	return &Cache{source: source, interner: interner}
}

// Get returns the catalog. It lists the tools only if the last catalog is out of date. Errors are *mcp.Error.
func (c *Cache) Get(ctx context.Context) (*Catalog, error) { return c.get(ctx, MaxAge) }

// Fresh returns a catalog that is at most retryAge old. Errors are *mcp.Error.
func (c *Cache) Fresh(ctx context.Context) (*Catalog, error) { return c.get(ctx, retryAge) }

// Find returns a tool and its catalog, or nil if the server has no such tool. It looks for a missing tool in a fresh list, because a server
// may add tools without a notification.
func (c *Cache) Find(ctx context.Context, name string) (*Catalog, *Tool, error) {
	for _, age := range []time.Duration{MaxAge, retryAge} {
		catalog, err := c.get(ctx, age)
		if err != nil {
			return nil, nil, err
		}
		if t := catalog.Find(name); t != nil {
			return catalog, t, nil
		}
	}
	return nil, nil, nil
}

func (c *Cache) get(ctx context.Context, age time.Duration) (*Catalog, error) {
	version := c.source.ToolsVersion()
	c.mu.Lock()
	current, listedVersion, listed := c.current, c.version, c.listed
	c.mu.Unlock()
	if current != nil && listedVersion == version && time.Since(listed) < age {
		return current, nil
	}
	// Other callers may wait for this list too, so it does not end when the first caller's ctx does.
	done := c.lists.DoChan(strconv.FormatUint(version, 10), func() (any, error) { return c.list(context.WithoutCancel(ctx), version) })
	select {
	case l := <-done:
		catalog, _ := l.Val.(*Catalog)
		return catalog, l.Err
	case <-ctx.Done():
		return nil, &mcp.Error{Kind: mcp.Interrupted, Message: context.Cause(ctx).Error(), Err: errors.Join(ctx.Err(), context.Cause(ctx))}
	}
}

func (c *Cache) list(ctx context.Context, version uint64) (*Catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	raw, err := c.source.ListTools(ctx)
	if err != nil {
		return nil, err
	}
	catalog, err := c.interner.read(raw)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || version >= c.version {
		c.current, c.listed, c.version = catalog, time.Now(), version
	}
	return catalog, nil
}
