package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

func TestNewServerRefuses(t *testing.T) {
	root := tree(t, map[string]string{"file.txt": "x"})
	tests := map[string]struct {
		root string
		want string
		is   error
	}{
		"no path":          {"", "name the folder", nil},
		"a missing folder": {filepath.Join(root, "none"), "create the folder", fs.ErrNotExist},
		"a file":           {filepath.Join(root, "file.txt"), "it is a file", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := NewServer(tt.root, Options{})
			if err == nil {
				t.Fatal("no error")
			}
			wantContains(t, err.Error(), "open workspace", tt.want)
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
		})
	}
}

func TestNewServerWithoutPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("permissions do not bind the superuser")
	}
	root := tree(t, map[string]string{"closed/": ""})
	must(t, os.Chmod(filepath.Join(root, "closed"), 0))
	_, err := NewServer(filepath.Join(root, "closed"), Options{})
	if !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("got %v, want a permission error", err)
	}
	wantContains(t, err.Error(), "no permission")
}

func TestRootIsAbsolute(t *testing.T) {
	root := tree(t, nil)
	t.Chdir(root)
	s := newServer(t, ".")
	if !filepath.IsAbs(s.Root()) || filepath.Base(s.Root()) != filepath.Base(root) {
		t.Errorf("Root() = %q, want the absolute path of %q", s.Root(), root)
	}
}

func TestClosedServerSaysSo(t *testing.T) {
	s := newServer(t, tree(t, map[string]string{"a.txt": "a"}))
	c := inProcess(t, s)
	must(t, s.Close())
	for tool, a := range map[string]args{
		"list_directory": {}, "read_file": {"path": "a.txt"}, "get_file_info": {"path": "a.txt"},
		"search_files": {"pattern": "a"}, "search_code": {"query": "a"},
	} {
		wantContains(t, callError(t, c, tool, a), "workspace is closed")
	}
}

// D12: the tools, as every MCP client sees them.
func TestToolsAsListed(t *testing.T) {
	s := newServer(t, tree(t, nil))
	onEachTransport(t, s, func(t *testing.T, c *client.Client) {
		listed, err := c.ListTools(context.Background(), mcp.ListToolsRequest{})
		must(t, err)
		var names []string
		for _, tool := range listed.Tools {
			names = append(names, tool.Name)
			a := tool.Annotations
			if !*a.ReadOnlyHint || *a.DestructiveHint || !*a.IdempotentHint || *a.OpenWorldHint {
				t.Errorf("%s: annotations %+v", tool.Name, a)
			}
			if tool.Title == "" || a.Title != tool.Title || len(tool.Description) < 80 {
				t.Errorf("%s: title %q / %q, description %q", tool.Name, tool.Title, a.Title, tool.Description)
			}
			if tool.OutputSchema.Type != "object" {
				t.Errorf("%s: no output schema", tool.Name)
			}
		}
		slices.Sort(names)
		want := []string{"get_file_info", "list_directory", "read_file", "search_code", "search_files"}
		if !slices.Equal(names, want) {
			t.Errorf("tools %v, want %v", names, want)
		}
	})
}

// D12: the tools of a workspace that may be written, with their hints.
func TestWritingToolsAsListed(t *testing.T) {
	c := inProcess(t, writable(t, tree(t, nil)))
	listed, err := c.ListTools(context.Background(), mcp.ListToolsRequest{})
	must(t, err)
	hints := map[string][3]bool{ // read-only, destructive, idempotent
		"write_file": {false, false, true}, "apply_patch": {false, false, true}, "create_directory": {false, false, true},
		"move_file": {false, true, true}, "delete_file": {false, true, true}, "restore_file": {false, false, false}, "list_backups": {true, false, true},
	}
	for _, tool := range listed.Tools {
		a := tool.Annotations
		if want, ok := hints[tool.Name]; ok && want != [3]bool{*a.ReadOnlyHint, *a.DestructiveHint, *a.IdempotentHint} {
			t.Errorf("%s: annotations %+v, want %v", tool.Name, a, want)
		}
		delete(hints, tool.Name)
	}
	if len(hints) > 0 {
		t.Errorf("not offered: %v", hints)
	}
}

// Each definition belongs to a tool that some option offers.
func TestEachDefinitionHasAHandler(t *testing.T) {
	s := newServer(t, tree(t, nil), Options{Write: true, Commands: []string{"go"}})
	handlers := s.handlers()
	tools, err := definitions()
	must(t, err)
	for _, tool := range tools {
		if handlers[tool.Name] == nil {
			t.Errorf("%s has no handler", tool.Name)
		}
		delete(handlers, tool.Name)
	}
	if len(handlers) > 0 {
		t.Errorf("without a definition: %v", handlers)
	}
}

// Each schema compiles, is closed, and describes and bounds every input.
func TestSchemasAreStrict(t *testing.T) {
	tools, err := definitions()
	must(t, err)
	for _, tool := range tools {
		compileSchema(t, tool.RawInputSchema)
		compileSchema(t, tool.RawOutputSchema)
		var schema struct {
			AdditionalProperties *bool
			Properties           map[string]map[string]any
		}
		must(t, json.Unmarshal(tool.RawInputSchema, &schema))
		if schema.AdditionalProperties == nil || *schema.AdditionalProperties {
			t.Errorf("%s takes properties it does not know", tool.Name)
		}
		for name, p := range schema.Properties {
			bound := map[any]string{"string": "maxLength", "integer": "maximum", "boolean": "description", "array": "maxItems", "object": "maxProperties"}[p["type"]]
			if p["description"] == nil || p[bound] == nil {
				t.Errorf("%s: %s lacks a description or a bound: %v", tool.Name, name, p)
			}
		}
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	s := newServer(t, tree(t, map[string]string{"a.txt": "a"}))
	c := inProcess(t, s)
	tests := map[string]struct {
		tool string
		args args
		want string
	}{
		"unknown property": {"list_directory", args{"dir": "x"}, "dir"},
		"case variant":     {"list_directory", args{"Path": "x"}, "Path"},
		"missing path":     {"read_file", args{}, "path"},
		"wrong type":       {"read_file", args{"path": 7}, "/path"},
		"line 0":           {"read_file", args{"path": "a.txt", "start_line": 0}, "/start_line"},
		"a fraction":       {"read_file", args{"path": "a.txt", "start_line": 1.5}, "/start_line"},
		"too many":         {"list_directory", args{"max_entries": 10001}, "/max_entries"},
		"empty query":      {"search_code", args{"query": ""}, "/query"},
		"empty pattern":    {"search_files", args{"pattern": ""}, "/pattern"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wantContains(t, callError(t, c, tt.tool, tt.args), "schema", tt.want)
		})
	}
	// A whole number written as a fraction is a whole number in JSON Schema.
	call[readOutput](t, c, "read_file", args{"path": "a.txt", "start_line": json.RawMessage("1.0")})
}
