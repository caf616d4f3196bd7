package offline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// workspace simulates the built-in workspace server over files in memory.
type workspace map[string]string

// sample is a small project.
func sample() workspace {
	return workspace{
		"README.md":             "# Pawl\n\nA pawl is the catch in a ratchet.\n\n## Use\n\nRun it.\n",
		"LICENSE":               "Apache License\nVersion 2.0\n",
		"go.mod":                "module example.com/wheel\n\ngo 1.26\n",
		"docs/guide.md":         "# Guide\n\nThe ratchet turns. The pawl holds.\nSpawling is no word.\n",
		"docs/release notes.md": "nothing yet\n",
		"docs/api/errors.md":    "# Errors\n",
		"server/server.go":      "package server\n\n// NewServer makes a server.\nfunc NewServer() *Server { return &Server{} }\n\ntype Server struct{}\n",
		"server/server_test.go": "package server\n\n// TODO: more\n",
		"main.go":               "package main\n\nfunc main() { server.NewServer() }\n",
		"api/wheel.proto":       "syntax = \"proto3\";\nmessage Wheel {}\n",
		"Makefile":              "build:\n\tgo build\n",
	}
}

// tools loads definitions as the server sends them.
func tools(t testing.TB, dir, mcpID string, effect commonv1.Effect) []*commonv1.Tool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "tools", dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tools in %s: %v", dir, err)
	}
	var out []*commonv1.Tool
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range definitions(t, raw) {
			var d struct {
				Name, Title, Description  string
				InputSchema, OutputSchema json.RawMessage
			}
			if err := json.Unmarshal(doc, &d); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			out = append(out, &commonv1.Tool{Id: mcpID + "/" + d.Name, McpId: mcpID, Name: d.Name, Title: d.Title, Description: d.Description,
				InputSchemaJson: string(d.InputSchema), OutputSchemaJson: string(d.OutputSchema), Effect: effect})
		}
	}
	return out
}

// definitions accepts one tool or a list of them.
func definitions(t testing.TB, raw []byte) []json.RawMessage {
	t.Helper()
	var list []json.RawMessage
	if raw[0] != '[' {
		return []json.RawMessage{raw}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// args are all that the tools take.
type args struct {
	Path      string `json:"path"`
	Pattern   string `json:"pattern"`
	Query     string `json:"query"`
	Glob      string `json:"glob"`
	Regex     bool   `json:"regex"`
	WholeWord bool   `json:"whole_word"`
	Recursive bool   `json:"recursive"`
	StartLine int    `json:"start_line"`
	EndLine   int    `json:"end_line"`
	Max       int    `json:"max_entries"`
}

// call runs a tool; it is what an executor and a pool do together.
func (w workspace) call(tool, input string) (output string, err error) {
	var a args
	dec := json.NewDecoder(strings.NewReader(input))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return "", fmt.Errorf("the input does not fit the schema: %w", err)
	}
	a.Path = cmp.Or(a.Path, ".")
	var v any
	switch path.Base(tool) {
	case "list_directory":
		v, err = w.list(a)
	case "read_file":
		v, err = w.read(a)
	case "get_file_info":
		v, err = w.info(a)
	case "search_files":
		v, err = w.searchFiles(a)
	case "search_code":
		v, err = w.searchCode(a)
	default:
		return "", fmt.Errorf("no tool %q", tool)
	}
	if err != nil {
		return "", err
	}
	structured, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	out, err := json.Marshal(map[string]any{"message": string(structured), "structured": json.RawMessage(structured)})
	return string(out), err
}

func (w workspace) missing(p string) error {
	return fmt.Errorf("%q does not exist: use list_directory on \".\" to see what is there, or search_files to find it elsewhere", p)
}

// under yields the files in a folder, or the file itself, sorted.
func (w workspace) under(dir string) []string {
	var out []string
	for _, f := range slices.Sorted(maps.Keys(w)) {
		if dir == "." || f == dir || strings.HasPrefix(f, dir+"/") {
			out = append(out, f)
		}
	}
	return out
}

func (w workspace) list(a args) (any, error) {
	files := w.under(a.Path)
	if len(files) == 0 {
		return nil, w.missing(a.Path)
	}
	entries := map[string]map[string]any{}
	for _, f := range files {
		rel := strings.TrimPrefix(f, a.Path+"/")
		parts := strings.Split(rel, "/")
		for i := range parts {
			p := path.Join(a.Path, strings.Join(parts[:i+1], "/"))
			e := map[string]any{"name": parts[i], "path": p, "type": "directory", "size": 0}
			if i == len(parts)-1 {
				e["type"], e["size"] = "file", len(w[f])
			}
			if i == 0 || a.Recursive {
				entries[p] = e
			}
		}
	}
	list := []map[string]any{}
	for _, p := range slices.Sorted(maps.Keys(entries)) {
		list = append(list, entries[p])
	}
	return map[string]any{"path": a.Path, "entries": list, "truncated": false}, nil
}

func (w workspace) read(a args) (any, error) {
	text, ok := w[a.Path]
	if !ok {
		return nil, w.missing(a.Path)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	from, to := cmp.Or(a.StartLine, 1), min(cmp.Or(a.EndLine, len(lines)), len(lines))
	return map[string]any{"path": a.Path, "content": strings.Join(lines[from-1:to], ""), "start_line": from, "end_line": to,
		"total_lines": len(lines), "truncated": false}, nil
}

func (w workspace) info(a args) (any, error) {
	text, ok := w[a.Path]
	if !ok {
		return nil, w.missing(a.Path)
	}
	return map[string]any{"path": a.Path, "type": "file", "size": len(text), "mode": "-rw-r--r--", "modified": "2026-01-02T03:04:05Z",
		"lines": strings.Count(text, "\n"), "mime_type": "text/plain"}, nil
}

func (w workspace) searchFiles(a args) (any, error) {
	found := []string{}
	for _, f := range w.under(a.Path) {
		if matches(a.Pattern, strings.TrimPrefix(f, a.Path+"/")) {
			found = append(found, f)
		}
	}
	return map[string]any{"pattern": a.Pattern, "files": found, "count": len(found), "truncated": false}, nil
}

func (w workspace) searchCode(a args) (any, error) {
	expr := a.Query
	if !a.Regex {
		expr = regexp.QuoteMeta(expr)
		if strings.ToLower(a.Query) == a.Query {
			expr = "(?i)" + expr
		}
	}
	if a.WholeWord {
		expr = `\b` + expr + `\b`
		if strings.ToLower(a.Query) == a.Query {
			expr = "(?i)" + expr
		}
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	files, hits := []map[string]any{}, []map[string]any{}
	for _, f := range w.under(a.Path) {
		if a.Glob != "" && !matches(a.Glob, f) {
			continue
		}
		n := 0
		for i, line := range strings.Split(w[f], "\n") {
			if re.MatchString(line) {
				n++
				hits = append(hits, map[string]any{"path": f, "line": i + 1, "text": line})
			}
		}
		if n > 0 {
			files = append(files, map[string]any{"path": f, "count": n})
		}
	}
	return map[string]any{"query": a.Query, "matches": hits, "match_count": len(hits), "file_count": len(files), "files": files,
		"truncated": false, "files_searched": len(w), "skipped": map[string]int{"binary": 0, "too_large": 0, "unreadable": 0}}, nil
}

// matches applies the workspace's rules: a glob without a slash is for the name, without wildcards it is a part of it.
func matches(pattern, file string) bool {
	if !strings.ContainsAny(pattern, "*?[{") {
		return strings.Contains(strings.ToLower(path.Base(file)), strings.ToLower(pattern))
	}
	if !strings.Contains(pattern, "/") {
		file = path.Base(file)
	}
	expr := regexp.QuoteMeta(pattern)
	for _, r := range [][2]string{{`\*\*/`, `(?:.*/)?`}, {`\*\*`, `.*`}, {`\*`, `[^/]*`}, {`\?`, `[^/]`}, {`\{`, `(?:`}, {`\}`, `)`}, {`,`, `|`}} {
		expr = strings.ReplaceAll(expr, r[0], r[1])
	}
	return regexp.MustCompile("^" + expr + "$").MatchString(file)
}
