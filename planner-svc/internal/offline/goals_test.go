package offline

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// goals are carried out against the sample workspace. The calls are complete; the answer holds each of the texts.
var goals = []struct {
	goal  string
	calls []string
	says  []string
}{
	{"which files mention \"ratchet\" and how many Go files are there", []string{`search_code {"query":"ratchet"}`, `search_files {"pattern":"**/*.go"}`},
		[]string{"README.md (1), docs/guide.md (1)", "There are 3 Go files.", "files: main.go, server/server.go, server/server_test.go."}},
	{"Which file mentions the word pawl?", []string{`search_code {"query":"pawl"}`}, []string{"README.md (2)"}},
	{"which files mention \"zzz\"", []string{`search_code {"query":"zzz"}`}, []string{"match_count: 0"}},
	{"Which markdown files in docs mention the ratchet?", []string{`search_code {"query":"ratchet","path":"docs","glob":"**/*.{md,markdown}"}`}, []string{"docs/guide.md (1)"}},
	{"How many Rust files are there?", []string{`search_files {"pattern":"**/*.rs"}`}, []string{"There are 0 Rust files."}},
	{"count the markdown files under docs", []string{`search_files {"pattern":"**/*.{md,markdown}","path":"docs"}`}, []string{"There are 3 markdown files"}},
	{"How many files mention ratchet?", []string{`search_code {"query":"ratchet"}`}, []string{"There are 2 files"}},
	{"有多少个文件提到 ratchet？", []string{`search_code {"query":"ratchet"}`}, []string{"共有 2 个 文件"}},
	{"How many lines are there in go.mod?", []string{`read_file {"path":"go.mod"}`}, []string{"There are 3 lines"}},
	{"How many Markdown files mention ratchet?", []string{`search_code {"query":"ratchet","glob":"**/*.{md,markdown}"}`}, []string{"There are 2 Markdown files"}},
	{"How many Go files contain the word TODO in server?", []string{`search_code {"query":"TODO","path":"server","glob":"**/*.go"}`}, []string{"There is 1 Go file"}},
	{"Is there a file called foo.txt?", []string{`get_file_info {"path":"foo.txt"}`}, []string{`"foo.txt" does not exist`}},
	{"find files named *.proto", []string{`search_files {"pattern":"*.proto"}`}, []string{"api/wheel.proto"}},
	{"List the files in docs", []string{`list_directory {"path":"docs"}`}, []string{"guide.md"}},
	{"Which files are in server?", []string{`list_directory {"path":"server"}`}, []string{"server.go"}},
	{"What files are there in docs?", []string{`list_directory {"path":"docs"}`}, []string{"guide.md"}},
	{"Show the files in server", []string{`list_directory {"path":"server"}`}, []string{"server.go"}},
	{"How many files are there in docs?", []string{`list_directory {"path":"docs"}`}, []string{"There are 2 files"}},
	{"How many folders are there?", []string{`list_directory {}`}, []string{"There are 3 folders"}},
	{"Read go.mod, then read LICENSE", []string{`read_file {"path":"go.mod"}`, `read_file {"path":"LICENSE"}`}, []string{"module example.com/wheel", "Apache License"}},
	{"Read \"docs/release notes.md\"", []string{`read_file {"path":"docs/release notes.md"}`}, []string{"nothing yet"}},
	{"show me the first 2 lines of README.md", []string{`read_file {"path":"README.md","end_line":2}`}, []string{"end_line: 2"}},
	{"Read -draft.md", []string{`read_file {"path":"-draft.md"}`}, nil},
	{"Read #todo.md", []string{`read_file {"path":"#todo.md"}`}, nil},
	{"Read +page.svelte", []string{`read_file {"path":"+page.svelte"}`}, nil},
	{"Read !go.mod", []string{`read_file {"path":"!go.mod"}`}, nil},
	{"Read a+go.mod", []string{`read_file {"path":"a+go.mod"}`}, nil},
	{"Read a&go.mod", []string{`read_file {"path":"a&go.mod"}`}, nil},
	{"Read a:go.mod", []string{`read_file {"path":"a:go.mod"}`}, nil},
	{"Read #docs/guide.md", []string{`read_file {"path":"#docs/guide.md"}`}, nil},
	{"读取 -draft.md", []string{`read_file {"path":"-draft.md"}`}, nil},
	{"Read für/x.md", []string{`read_file {"path":"für/x.md"}`}, nil},
	{"Search for -v", []string{`search_code {"query":"-v"}`}, nil},
	{"Which files mention --auto?", []string{`search_code {"query":"--auto"}`}, nil},
	{"read nothing.xyz", []string{`read_file {"path":"nothing.xyz"}`}, []string{`/read_file) failed: "nothing.xyz" does not exist`}},
	{"find README.md and read it", []string{`search_files {"pattern":"README.md"}`, `read_file {"path":"README.md"}`}, []string{"# Pawl"}},
	{"find the Go files and read them", []string{`search_files {"pattern":"**/*.go"}`, `read_file {"path":"main.go"}`, `read_file {"path":"server/server.go"}`, `read_file {"path":"server/server_test.go"}`}, nil},
	{"find Rust files and read them", []string{`search_files {"pattern":"**/*.rs"}`}, []string{`Not reached: "read them".`}},
	{"Which file mentions Apache, and how big is it?", []string{`search_code {"query":"Apache"}`, `get_file_info {"path":"LICENSE"}`}, []string{"size: 27"}},
	{"use search_code to find ratchet in docs", []string{`search_code {"query":"ratchet","path":"docs"}`}, nil},
	{`call workspace/read_file {"path": "go.mod", "end_line": 1}`, []string{`read_file {"path":"go.mod","end_line":1}`}, []string{"module example.com/wheel"}},
	{"哪个文件提到了 pawl？有多少个 Go 文件？", []string{`search_code {"query":"pawl"}`, `search_files {"pattern":"**/*.go"}`}, []string{"共有 3 个 Go 文件"}},
	{"列出 docs 目录下的文件", []string{`list_directory {"path":"docs"}`}, []string{"guide.md"}},
	{"读取 日记/周一.md", []string{`read_file {"path":"日记/周一.md"}`}, nil},
	{"读取日记/周一.md的内容", []string{`read_file {"path":"日记/周一.md"}`}, nil},
	{"读取 README.md 的前 2 行", []string{`read_file {"path":"README.md","end_line":2}`}, nil},
	{"查找所有 *.proto 文件，然后读取 LICENSE", []string{`search_files {"pattern":"*.proto"}`, `read_file {"path":"LICENSE"}`}, nil},
}

func TestGoals(t *testing.T) {
	for _, tc := range goals {
		tctx := &plannerv1.TaskContext{Goal: tc.goal, Tools: tools(t, "workspace", "workspace", commonv1.Effect_EFFECT_READ)}
		calls, answer := run(t, tctx, sample().call)
		for i := range calls {
			calls[i] = strings.TrimPrefix(calls[i], "workspace/")
		}
		if d := cmp.Diff(tc.calls, calls); d != "" {
			t.Errorf("%q:\n%s", tc.goal, d)
		}
		for _, s := range append(tc.says, "") {
			if !strings.Contains(answer, s) {
				t.Errorf("%q: the answer lacks %q:\n%s", tc.goal, s, answer)
			}
		}
		if !strings.HasSuffix(answer, signedEN) && !strings.HasSuffix(answer, signedZH) {
			t.Errorf("%q: the answer does not say who wrote it:\n%s", tc.goal, answer)
		}
	}
}

// A goal that says something that no tool knows is refused: nothing is called, the answer names what was not understood and how to set a model,
// and the goal is not fulfilled.
// Each of these goals asks for something that no tool does, and was once answered with something else.
var unfit = map[string]string{ // what the refusal names
	"Which Go files have no TODO?": "no", "Which Go files have no tests?": "no", "哪些文件未提到 TODO？": "未", "列出所有非 Go 文件": "非", "读取 server/server.go 以外的文件": "以外",
	"Which Go file has the most lines?": "most", "Which files mention TODO most often?": "most", "Which folder has the most files?": "most", "列出空文件": "空文件", "列出大文件": "大文件",
	"List the subfolders": "subfolders", "Read the last line of go.mod": "last", "读取 go.mod 的最后一行": "最后", "读取 go.mod 的前两行": "前", "How many Go files are directly in server?": "directly",
	"Search for ratchet with upper-case R": "upper", "Does go.mod contain hello?": "hello", "List the files in server sorted by size": "sorted", "List the files in server sorted by name": "sorted",
	"Search for todo ignoring tests": "ignoring", "Which Go files are in server but nowhere deeper?": "but", "查找名字以 b 开头的文件": "开头", "List empty files": "empty", "Which files contain both TODO and ratchet?": "ratchet", "Which files mention TODO or ratchet?": "", "Read the end of go.mod": "end",
	"Read go.mod and LICENSE": "LICENSE", "Read \"release notes.md\" in docs": "docs",
	"If LICENSE contains TODO, read go.mod": "If", "别读 LICENSE.txt": "别", "总结 LICENSE.txt": "总结", "如果 go.mod 提到 TODO，读取 LICENSE": "如果", "List the files except LICENSE": "except",
}

func TestRefusesWhatNoToolFits(t *testing.T) {
	for goal, names := range unfit {
		tctx := &plannerv1.TaskContext{Goal: goal, Tools: tools(t, "workspace", "workspace", commonv1.Effect_EFFECT_READ)}
		calls, answer := run(t, tctx, sample().call)
		first, _, _ := strings.Cut(answer, "\n")
		if len(calls) > 0 || !strings.Contains(first, "understand: \""+names) && !strings.Contains(first, "没有理解的部分：\""+names) {
			t.Errorf("%q: %v\n%s", goal, calls, first)
		}
		if chinese := strings.ContainsFunc(goal, func(r rune) bool { return r > 0x2e80 }); chinese != strings.Contains(first, "没有理解") {
			t.Errorf("%q is refused in another language: %s", goal, first)
		}
	}
}

func TestRefuses(t *testing.T) {
	for goal, names := range map[string]string{
		"List files that do not mention TODO": `"not"`, "Delete all the files": `"Delete"`, "Don't read package.json": `"Don't"`, "Files bigger than 100 bytes": `"bigger"`, "Which Go file is the largest?": `"largest"`,
		"Read every file except README.md": "every", "What's the weather in Chicago?": "weather", "frobnicate the file README.md": "frobnicate", "Read LICENSE and translate it to French": "translate", "show the last 2 lines of README.md": "last",
		"最大的 Go 文件是哪个？": "最大", "不要读取 README.md": "不要", "hello": "hello", "讲个笑话": "笑话", "How many lines of Go code are there in total?": "total",
	} {
		tctx := &plannerv1.TaskContext{Goal: goal, Tools: tools(t, "workspace", "workspace", commonv1.Effect_EFFECT_READ)}
		calls, answer := run(t, tctx, sample().call)
		if len(calls) > 0 {
			t.Errorf("%q: %v", goal, calls)
		}
		if !strings.Contains(answer, strings.Trim(names, `"`)) || !strings.Contains(answer, "--model openai:") || !strings.Contains(answer, "- workspace/search_code: Search text in files") {
			t.Errorf("%q:\n%s", goal, answer)
		}
		res, err := New().GenerateAnswer(t.Context(), &plannerv1.GenerateAnswerRequest{Context: tctx}, func(string) error { return nil })
		if err != nil || res.GetGoalResult() != plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED {
			t.Errorf("%q: %v, %v", goal, res, err)
		}
	}
	_, answer := run(t, &plannerv1.TaskContext{Goal: "Read README.md"}, nil)
	if !strings.Contains(answer, "There are no tools: activate an MCP server") {
		t.Errorf("without tools:\n%s", answer)
	}
}

// Tools and properties whose names have no letters are no reason to panic.
func TestNamesWithoutLetters(t *testing.T) {
	odd := &commonv1.Tool{Id: "s/_", Name: "_", Description: "Reads 5 songs of a living room", InputSchemaJson: `{"properties":{"$":{"type":"integer"},"_":{"type":"string"}}}`}
	for _, goal := range []string{"create 5 songs in the Living Room", "read 5 songs", "_"} {
		nextOf(t, &plannerv1.TaskContext{Goal: goal, Tools: []*commonv1.Tool{odd}})
	}
}

// Behind a failed step nothing is called, and no call is repeated.
func TestAfterAFailure(t *testing.T) {
	goal := "delete the path docs/old, then echo done"
	calls, answer := run(t, &plannerv1.TaskContext{Goal: goal, Tools: everywhere(t)}, func(tool, in string) (string, error) {
		if strings.HasPrefix(tool, "workspace/") {
			return sample().call(tool, in)
		}
		return "", errors.New("connection refused")
	})
	want := []string{`other/delete_path {"path":"docs/old"}`}
	if d := cmp.Diff(want, calls); d != "" {
		t.Error(d)
	}
	for _, s := range []string{"(other/delete_path) failed: connection refused", "Not reached: \"echo done\"."} {
		if !strings.Contains(answer, s) {
			t.Errorf("the answer lacks %q:\n%s", s, answer)
		}
	}
}

// The tools of other servers are used like those of the workspace.
func TestArbitraryTools(t *testing.T) {
	for goal, want := range map[string]string{
		"echo hello world":                                          `everything/echo {"message":"hello world"}`,
		"echo \"hello, world\"":                                     `everything/echo {"message":"hello, world"}`,
		"call everything/echo with message=hello":                   `everything/echo {"message":"hello"}`,
		"what is the sum of 4 and 5?":                               `everything/get-sum {"a":4,"b":5}`,
		"call everything/get-sum {\"a\": 1, \"b\": 41}":             `everything/get-sum {"a":1,"b":41}`,
		"get an annotated message of type error including an image": `everything/get-annotated-message {"messageType":"error","includeImage":true}`,
		"open the nodes \"Alice\" and \"Bob\"":                      `memory/open_nodes {"names":["Alice","Bob"]}`,
		"delete the entities Alice":                                 `memory/delete_entities {"entityNames":["Alice"]}`,
		"create an issue with title=\"Bug\" owner=acme repo=wheel":  `other/create_issue {"owner":"acme","repo":"wheel","title":"Bug"}`,
		"fetch https://example.com/a?b=c":                           `other/fetch {"url":"https://example.com/a?b=c"}`,
		"get the current time with timezone=Asia/Tokyo":             `other/get_current_time {"timezone":"Asia/Tokyo"}`,
		"send a message to channel general with text \"hi all\"":    `other/send_message {"channel":"general","text":"hi all"}`,
		"delete the path docs/old":                                  `other/delete_path {"path":"docs/old"}`,
		"echo \"a\nb\"":                                             `everything/echo {"message":"a\nb"}`,
		"回显 你好世界":                                                   `everything/echo {"message":"你好世界"}`,
		"把 2 和 3 相加":                                                `everything/get-sum {"a":2,"b":3}`,
		"获取环境变量":                                                    `everything/get-env {}`,
	} {
		if st := nextOf(t, &plannerv1.TaskContext{Goal: goal, Tools: everywhere(t)}); st.GetToolId()+" "+st.GetInputJson() != want {
			t.Errorf("%q: %s %s, want %s", goal, st.GetToolId(), st.GetInputJson(), want)
		}
	}
	for _, goal := range []string{"how do I delete a path?", "what does create_issue do?", "what time is it in Tokyo?"} {
		if st := nextOf(t, &plannerv1.TaskContext{Goal: goal, Tools: everywhere(t)}); st.GetToolId() != "FINAL" {
			t.Errorf("%q: %s %s", goal, st.GetToolId(), st.GetInputJson())
		}
	}
}
