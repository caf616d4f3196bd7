package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// filesUses use server-filesystem in a folder with hello.txt and dot.png.
func filesUses(folder string) []use {
	in := func(name string) string { return filepath.Join(folder, name) }
	path := func(name string) string { return `{"path":` + quote(in(name)) + `}` }
	return []use{
		{tool: "read_text_file", input: path("hello.txt"), wants: []string{"text a pawl holds the wheel", `structured {"content":"a pawl holds`}},
		{tool: "read_text_file", refused: codes.InvalidArgument, wants: []string{"path"}},
		{tool: "read_text_file", input: `{"path":"/etc/hostname"}`, failed: true, wants: []string{"Access denied"}},
		{tool: "read_file", input: path("hello.txt"), wants: []string{"a pawl holds the wheel"}},
		{tool: "read_media_file", input: path("dot.png"), wants: []string{"image image/png", "structured"}},
		{tool: "read_multiple_files", input: `{"paths":[` + quote(in("hello.txt")) + `,` + quote(in("none.txt")) + `]}`, wants: []string{"a pawl holds the wheel", "none.txt: Error"}},
		{tool: "write_file", input: `{"path":` + quote(in("new.txt")) + `,"content":"one\ntwo\n"}`, wants: []string{"Successfully wrote"}, after: holds(in("new.txt"), "one\ntwo\n")},
		{tool: "edit_file", input: `{"path":` + quote(in("new.txt")) + `,"edits":[{"oldText":"two","newText":"three"}]}`, wants: []string{"-two", "+three"}, after: holds(in("new.txt"), "one\nthree\n")},
		{tool: "create_directory", input: path("sub"), wants: []string{"Successfully created"}},
		{tool: "move_file", input: `{"source":` + quote(in("new.txt")) + `,"destination":` + quote(in("sub/moved.txt")) + `}`, wants: []string{"Successfully moved"}, after: holds(in("sub/moved.txt"), "one\nthree\n")},
		{tool: "list_directory", input: path("."), wants: []string{"[FILE] hello.txt", "[DIR] sub"}},
		{tool: "list_directory_with_sizes", input: path("."), wants: []string{"hello.txt", "23 B", "Total: 2 files, 1 directories"}},
		{tool: "directory_tree", input: path("."), wants: []string{"moved.txt", "structured"}},
		{tool: "search_files", input: `{"path":` + quote(folder) + `,"pattern":"**/*.txt"}`, wants: []string{in("hello.txt"), in("sub/moved.txt")}},
		{tool: "get_file_info", input: path("hello.txt"), wants: []string{"size: 23"}},
		{tool: "list_allowed_directories", wants: []string{folder}},
	}
}

// memoryUses use server-memory, which keeps its graph in a file.
func memoryUses(file string) []use {
	return []use{
		{tool: "create_entities", input: `{"entities":[{"name":"pawl","entityType":"part","observations":["catches"]},{"name":"wheel","entityType":"part","observations":[]}]}`, wants: []string{`"pawl"`}, after: holds(file, `"pawl"`)},
		{tool: "create_relations", input: `{"relations":[{"from":"pawl","to":"wheel","relationType":"holds"}]}`, wants: []string{`"holds"`}},
		{tool: "add_observations", input: `{"observations":[{"entityName":"wheel","contents":["turns"]}]}`, wants: []string{"turns"}},
		{tool: "read_graph", wants: []string{"catches", "turns", "holds"}},
		{tool: "search_nodes", input: `{"query":"turns"}`, wants: []string{`"wheel"`}},
		{tool: "open_nodes", input: `{"names":["pawl"]}`, wants: []string{"catches"}},
		{tool: "delete_observations", input: `{"deletions":[{"entityName":"pawl","observations":["catches"]}]}`, wants: []string{"deleted"}},
		{tool: "delete_relations", input: `{"relations":[{"from":"pawl","to":"wheel","relationType":"holds"}]}`, wants: []string{"deleted"}},
		{tool: "delete_entities", input: `{"entityNames":["pawl","wheel"]}`, wants: []string{"deleted"}},
	}
}

func thinkingUses() []use {
	return []use{{
		tool: "sequentialthinking", input: `{"thought":"The pawl drops.","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`,
		wants: []string{`structured {"thoughtNumber":1`, `"thoughtHistoryLength":1`},
	}}
}

// holds returns a check that a file contains a text.
func holds(path, want string) func(*testing.T) {
	return func(t *testing.T) {
		if got, err := os.ReadFile(path); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
		}
	}
}

func quote(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(raw)
}
