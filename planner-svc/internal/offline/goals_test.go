package offline

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/input"
)

const (
	signedEN = "(Written by the offline planner, without a language model.)"
	signedZH = "（由离线规划器生成，未使用语言模型。）"
)

// define is the query that looks for a definition.
func define(name string) string {
	return strings.ReplaceAll(input.DefinitionRegex(name), `\`, `\\`)
}

// goals are carried out against the sample workspace. The calls are complete; the answer holds each of the texts.
var goals = []struct {
	goal  string
	calls []string
	says  []string
}{
	{"Which file mentions the word pawl?",
		[]string{`search_code {"query":"pawl","whole_word":true}`},
		[]string{`The word "pawl" is mentioned in 2 files (3 matching lines): README.md (2), docs/guide.md (1).`}},
	{"which files mention \"ratchet\" and how many Go files are there",
		[]string{`search_code {"query":"ratchet"}`, `search_files {"pattern":"**/*.go"}`},
		[]string{`"ratchet" is mentioned in 2 files (2 matching lines): README.md (1), docs/guide.md (1).`,
			"There are 3 Go files (**/*.go): main.go, server/server.go, server/server_test.go."}},
	{"Which files mention pawl or Version?",
		[]string{`search_code {"query":"pawl"}`, `search_code {"query":"Version"}`},
		[]string{`"pawl" is mentioned in 2 files (4 matching lines)`, `"Version" is mentioned in 1 file (1 matching line): LICENSE (1).`, "- LICENSE:2: `Version 2.0`"}},
	{"which file mentions the word spawl",
		[]string{`search_code {"query":"spawl","whole_word":true}`, `search_code {"query":"spawl"}`},
		[]string{`"spawl" does not stand alone as a word, but as a part of longer ones it is mentioned in 1 file (1 matching line): docs/guide.md (1).`}},
	{"which files mention \"zzz\"", []string{`search_code {"query":"zzz"}`}, []string{`No file mentions "zzz".`}},
	{"Which markdown files in docs mention the ratchet?",
		[]string{`search_code {"query":"ratchet","path":"docs","glob":"**/*.{md,markdown}"}`}, []string{"docs/guide.md (1)", "in docs (Markdown files)"}},
	{"Where is NewServer used?", []string{`search_code {"query":"NewServer"}`}, []string{"- main.go:3: `func main() { server.NewServer() }`"}},
	{"Find all TODO comments", []string{`search_code {"query":"TODO"}`}, []string{"- server/server_test.go:3: `// TODO: more`"}},
	{"where is the function NewServer defined",
		[]string{`search_code {"query":"` + define("NewServer") + `","regex":true}`},
		[]string{"NewServer is defined at server/server.go:4: `func NewServer() *Server { return &Server{} }`"}},
	{"where is frobnicate defined?",
		[]string{`search_code {"query":"` + define("frobnicate") + `","regex":true}`, `search_code {"query":"frobnicate"}`},
		[]string{"frobnicate is not defined or mentioned anywhere."}},
	{"How many Go files are there?", []string{`search_files {"pattern":"**/*.go"}`}, []string{"There are 3 Go files (**/*.go)"}},
	{"count the markdown files under docs", []string{`search_files {"pattern":"**/*.{md,markdown}","path":"docs"}`}, []string{"There are 3 Markdown files (**/*.{md,markdown}) in docs"}},
	{"How many Rust files are there?", []string{`search_files {"pattern":"**/*.rs"}`}, []string{"There are no Rust files (**/*.rs)."}},
	{"how many files are there", []string{`search_files {"pattern":"**/*"}`}, []string{"There are 11 files."}},
	{"How many Go files are there? How many Go files are there?", []string{`search_files {"pattern":"**/*.go"}`}, []string{"There are 3 Go files"}},
	{"find files named *.proto", []string{`search_files {"pattern":"**/*.proto"}`}, []string{"There is 1 file matching *.proto: api/wheel.proto."}},
	{"find files named nothing.txt", []string{`search_files {"pattern":"**/nothing.txt"}`, `search_files {"pattern":"nothing.txt"}`}, []string{"There are no files named nothing.txt."}},
	{"find files named guide.m", []string{`search_files {"pattern":"**/guide.m"}`, `search_files {"pattern":"guide.m"}`}, []string{`There is 1 file with "guide.m" in the name: docs/guide.md.`}},
	{"List the files in docs", []string{`list_directory {"path":"docs"}`}, []string{"docs holds 1 folder and 2 files:\n- api/\n- guide.md (65 B)\n- release notes.md (12 B)"}},
	{"list all files", []string{`list_directory {"recursive":true}`}, []string{"4 folders and 11 files", "- docs/api/errors.md (9 B)"}},
	{"How many folders are there?", []string{`list_directory {}`}, []string{"The root folder holds 3 folders", "- server/"}},
	{"List the folders", []string{`list_directory {}`}, []string{"The root folder holds 3 folders:\n- api/\n- docs/\n- server/"}},
	{"what are the subdirectories of docs?", []string{`list_directory {"path":"docs"}`}, []string{"- api/"}},
	{"Which Go file is the largest?", []string{`list_directory {"recursive":true,"max_entries":10000}`}, []string{"The largest of 3 Go files:\n- server/server.go (113 B)\n- main.go (49 B)"}},
	{"what is the smallest file in docs", []string{`list_directory {"path":"docs","recursive":true,"max_entries":10000}`}, []string{"The smallest of 3 files in docs:\n- docs/api/errors.md (9 B)"}},
	{"how many times does pawl appear in LICENSE", []string{`search_code {"query":"pawl","path":"LICENSE"}`}, []string{`LICENSE does not mention "pawl".`}},
	{"Tell me about the README", []string{`list_directory {}`, `read_file {"path":"README.md"}`}, []string{"# Pawl"}},
	{"最大的 Go 文件是哪个？", []string{`list_directory {"recursive":true,"max_entries":10000}`}, []string{"3 个 Go 文件中最大的：\n- server/server.go (113 B)"}},
	{"Read README.md", []string{`read_file {"path":"README.md"}`}, []string{"README.md (7 lines):\n\n```md\n# Pawl\n\nA pawl is"}},
	{"Read go.mod and LICENSE", []string{`read_file {"path":"go.mod"}`, `read_file {"path":"LICENSE"}`}, []string{"module example.com/wheel", "Apache License"}},
	{"Read \"release notes.md\" in docs", []string{`read_file {"path":"docs/release notes.md"}`}, []string{"nothing yet"}},
	{"show me the first 2 lines of README.md", []string{`read_file {"path":"README.md","start_line":1,"end_line":2}`}, []string{"README.md (lines 1–2 of 7):"}},
	{"show the last 2 lines of README.md", []string{`get_file_info {"path":"README.md"}`, `read_file {"path":"README.md","start_line":6,"end_line":7}`}, []string{"lines 6–7 of 7", "Run it."}},
	{"read the license", []string{`list_directory {}`, `read_file {"path":"LICENSE"}`}, []string{"Apache License"}},
	{"read server.go", []string{`read_file {"path":"server.go"}`, `search_files {"pattern":"**/server.go"}`, `read_file {"path":"server/server.go"}`},
		[]string{"It is not where you named it; found server/server.go (6 lines):"}},
	{"read nothing.xyz", []string{`read_file {"path":"nothing.xyz"}`, `search_files {"pattern":"**/nothing.xyz"}`},
		[]string{`/read_file) failed: "nothing.xyz" does not exist`, "There is no file named nothing.xyz."}},
	{"find README.md and read it", []string{`search_files {"pattern":"**/README.md"}`, `read_file {"path":"README.md"}`}, []string{"1 file named README.md", "# Pawl"}},
	{"find the Go files and read them", []string{`search_files {"pattern":"**/*.go"}`, `read_file {"path":"main.go"}`, `read_file {"path":"server/server.go"}`, `read_file {"path":"server/server_test.go"}`}, nil},
	{"find Rust files and read them", []string{`search_files {"pattern":"**/*.rs"}`}, []string{"There are no Rust files", "nothing was found before that this could go on with"}},
	{"Which file mentions Apache, and how big is it?", []string{`search_code {"query":"Apache"}`, `get_file_info {"path":"LICENSE"}`}, []string{"LICENSE: 27 bytes, 2 lines"}},
	{"How big is LICENSE?", []string{`get_file_info {"path":"LICENSE"}`}, []string{"LICENSE: 27 bytes, 2 lines, text/plain, last changed 2026-01-02T03:04:05Z."}},
	{"what does this project do", []string{`list_directory {}`, `read_file {"path":"README.md"}`}, []string{"README.md says:\n\n> # Pawl\n>\n> A pawl is the catch in a ratchet."}},
	{"call workspace/search_code with query=ratchet", []string{`search_code {"query":"ratchet"}`}, []string{`"ratchet" is mentioned in 2 files`}},
	{"use search_code to find ratchet in docs", []string{`search_code {"query":"ratchet","path":"docs"}`}, []string{`"ratchet" is mentioned in 1 file (1 matching line) in docs`}},
	{"use read_file with path=go.mod", []string{`read_file {"path":"go.mod"}`}, []string{"module example.com/wheel"}},
	{`call workspace/read_file {"path": "go.mod", "end_line": 1}`, []string{`read_file {"path":"go.mod","end_line":1}`}, []string{"module example.com/wheel"}},
	{"哪个文件提到了 pawl？有多少个 Go 文件？", []string{`search_code {"query":"pawl"}`, `search_files {"pattern":"**/*.go"}`},
		[]string{"“pawl”在 2 个文件中出现（4 个匹配行）：README.md (2)、docs/guide.md (2)。", "共有 3 个 Go 文件（**/*.go）：main.go、server/server.go、server/server_test.go。"}},
	{"统计 docs 目录下的 markdown 文件数量", []string{`search_files {"pattern":"**/*.{md,markdown}","path":"docs"}`}, []string{"共有 3 个 Markdown 文件"}},
	{"列出 docs 目录下的文件", []string{`list_directory {"path":"docs"}`}, []string{"docs 有 1 个文件夹和 2 个文件：\n- api/"}},
	{"读取 README.md 的前 2 行", []string{`read_file {"path":"README.md","start_line":1,"end_line":2}`}, []string{"README.md（第 1–2 行，共 7 行）："}},
	{"LICENSE 有多少行？", []string{`get_file_info {"path":"LICENSE"}`}, []string{"LICENSE：27 字节，2 行"}},
	{"NewServer 函数在哪里定义的？", []string{`search_code {"query":"` + define("NewServer") + `","regex":true}`}, []string{"NewServer 定义在 server/server.go:4"}},
	{"这个项目是做什么的？", []string{`list_directory {}`, `read_file {"path":"README.md"}`}, []string{"README.md 中写道："}},
	{"查找所有 *.proto 文件，然后读取 LICENSE", []string{`search_files {"pattern":"**/*.proto"}`, `read_file {"path":"LICENSE"}`}, []string{"共有 1 个匹配 *.proto 的文件：api/wheel.proto。"}},
}

func TestGoals(t *testing.T) {
	for _, mcpID := range []string{"workspace", "workspace-wheel"} {
		for _, tc := range goals {
			if mcpID != "workspace" && strings.Contains(tc.goal, "workspace/") {
				continue
			}
			tctx := &plannerv1.TaskContext{Goal: tc.goal, Tools: tools(t, "workspace", mcpID, commonv1.Effect_EFFECT_READ)}
			calls, answer := run(t, tctx, sample().call)
			for i, c := range calls {
				calls[i] = strings.TrimPrefix(c, mcpID+"/")
			}
			if d := cmp.Diff(tc.calls, calls); d != "" {
				t.Errorf("%q:\n%s", tc.goal, d)
			}
			for _, s := range tc.says {
				if !strings.Contains(answer, s) {
					t.Errorf("%q: the answer lacks %q:\n%s", tc.goal, s, answer)
				}
			}
			if !strings.HasSuffix(answer, signedEN) && !strings.HasSuffix(answer, signedZH) {
				t.Errorf("%q: the answer does not say who wrote it:\n%s", tc.goal, answer)
			}
		}
	}
}

// What cannot be matched is said, and nothing is done.
func TestHonestWithoutAMatch(t *testing.T) {
	for _, goal := range []string{"delete the file x.txt", "What's the weather in Chicago?", "hello", "frobnicate the file README.md", "compile the Go files",
		"How many lines of Go code are there?", "Which file contains the most Go code?", "tell me a joke", "write \"x\" to a.txt", "run the tests", "call other/tool with a=1", "你好", "讲个笑话"} {
		tctx := &plannerv1.TaskContext{Goal: goal, Tools: tools(t, "workspace", "workspace", commonv1.Effect_EFFECT_READ)}
		calls, answer := run(t, tctx, sample().call)
		if len(calls) > 0 {
			t.Errorf("%q: %v", goal, calls)
		}
		if !strings.Contains(answer, "- workspace/search_code: Search text in files") || !strings.Contains(answer, "playbook") || !strings.Contains(answer, "`model`") {
			t.Errorf("%q:\n%s", goal, answer)
		}
		if !strings.Contains(answer, "could not match this goal to a tool") && !strings.Contains(answer, "无法为该目标找到合适的工具") {
			t.Errorf("%q:\n%s", goal, answer)
		}
	}
	_, answer := run(t, &plannerv1.TaskContext{Goal: "Read README.md"}, nil)
	if !strings.Contains(answer, "There are no tools: activate an MCP server") {
		t.Errorf("without tools:\n%s", answer)
	}
}

func TestPartlyMatched(t *testing.T) {
	tctx := &plannerv1.TaskContext{Goal: "Read LICENSE and translate it to French. Count the Go files.", Tools: tools(t, "workspace", "workspace", commonv1.Effect_EFFECT_READ)}
	calls, answer := run(t, tctx, sample().call)
	if len(calls) != 2 || !strings.Contains(answer, `could not match "translate it to French" to a tool`) && !strings.Contains(answer, "Apache") {
		t.Errorf("%v\n%s", calls, answer)
	}
}
