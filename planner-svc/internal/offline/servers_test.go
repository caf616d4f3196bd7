package offline

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// everywhere are the tools of several servers that nobody here wrote, beside the workspace. Their effects are unknown, so WRITE.
func everywhere(t testing.TB) []*commonv1.Tool {
	all := tools(t, "workspace", "workspace", commonv1.Effect_EFFECT_READ)
	for _, server := range []string{"everything", "memory", "other"} {
		all = append(all, tools(t, server, server, commonv1.Effect_EFFECT_WRITE)...)
	}
	return all
}

func TestArbitraryTools(t *testing.T) {
	for goal, want := range map[string][]string{
		"echo hello world":                                          {`everything/echo {"message":"hello world"}`},
		"echo \"hello, world\"":                                     {`everything/echo {"message":"hello, world"}`},
		"call everything/echo with message=hello":                   {`everything/echo {"message":"hello"}`},
		"call everything/echo with message hello":                   {`everything/echo {"message":"hello"}`},
		"use the echo tool to say hi there":                         {`everything/echo {"message":"hi there"}`},
		"add 2 and 3":                                               {`everything/get-sum {"a":2,"b":3}`},
		"what is the sum of 4 and 5?":                               {`everything/get-sum {"a":4,"b":5}`},
		"call get-sum with a=2 and b=3":                             {`everything/get-sum {"a":2,"b":3}`},
		"call everything/get-sum {\"a\": 1, \"b\": 41}":             {`everything/get-sum {"a":1,"b":41}`},
		"call everything/get-sum with a=1":                          {`everything/get-sum {"a":1}`},
		"run the long running operation for 5 seconds with 3 steps": {`everything/trigger-long-running-operation {"duration":5,"steps":3}`},
		"get a tiny image":                                          {`everything/get-tiny-image {}`},
		"show me the environment variables":                         {`everything/get-env {}`},
		"What's the weather in Chicago?":                            {`everything/get-structured-content {"location":"Chicago"}`},
		"get an annotated message of type error including an image": {`everything/get-annotated-message {"messageType":"error","includeImage":true}`},
		"read the graph":                                            {`memory/read_graph {}`},
		"search nodes for Alice":                                    {`memory/search_nodes {"query":"Alice"}`},
		"open the nodes \"Alice\" and \"Bob\"":                      {`memory/open_nodes {"names":["Alice","Bob"]}`},
		"delete the entities Alice":                                 {`memory/delete_entities {"entityNames":["Alice"]}`},
		"create an issue with title=\"Bug\" owner=acme repo=wheel":  {`other/create_issue {"owner":"acme","repo":"wheel","title":"Bug"}`},
		"create an issue":                                           {`other/create_issue {}`},
		"fetch https://example.com/a?b=c":                           {`other/fetch {"url":"https://example.com/a?b=c"}`},
		"get the current time with timezone=Asia/Tokyo":             {`other/get_current_time {"timezone":"Asia/Tokyo"}`},
		"send a message to channel general with text \"hi all\"":    {`other/send_message {"channel":"general","text":"hi all"}`},
		"delete the path docs/old":                                  {`other/delete_path {"path":"docs/old"}`},
		"echo hello and add 2 and 3":                                {`everything/echo {"message":"hello"}`, `everything/get-sum {"a":2,"b":3}`},
		"Which file mentions the word ratchet, then echo it":        {`workspace/search_code {"query":"ratchet","whole_word":true}`, `everything/echo {"message":"README.md\ndocs/guide.md"}`},
		"回显 你好世界":                                                   {`everything/echo {"message":"你好世界"}`},
		"用 everything/echo 回显 message=你好":                           {`everything/echo {"message":"你好"}`},
		"把 2 和 3 相加":                                                {`everything/get-sum {"a":2,"b":3}`},
		"获取环境变量":                                                    {`everything/get-env {}`},
		"调用 everything/get-sum a=1 b=2":                             {`everything/get-sum {"a":1,"b":2}`},
		"how do I delete a path?":                                   nil,
		"what does create_issue do?":                                nil,
		"what time is it in Tokyo?":                                 nil,
		"Which file mentions the word pawl?":                        {`workspace/search_code {"query":"pawl","whole_word":true}`},
	} {
		calls, answer := run(t, &plannerv1.TaskContext{Goal: goal, Tools: everywhere(t)}, func(tool, in string) (string, error) {
			if strings.HasPrefix(tool, "workspace/") {
				return sample().call(tool, in)
			}
			return `{"message":"it worked"}`, nil
		})
		if d := cmp.Diff(want, calls); d != "" {
			t.Errorf("%q:\n%s", goal, d)
		}
		if len(want) > 0 && !strings.HasPrefix(want[0], "workspace/") && !strings.Contains(answer, "it worked") {
			t.Errorf("%q: the answer does not tell the result:\n%s", goal, answer)
		}
	}
}

// The filesystem server takes absolute paths below folders that it names itself.
func TestFilesystemServer(t *testing.T) {
	const ask = `filesystem/list_allowed_directories {}`
	for goal, want := range map[string][]string{
		"Read a.txt":                          {ask, `filesystem/read_text_file {"path":"/srv/x/a.txt"}`},
		"read a.txt and b.txt":                {ask, `filesystem/read_text_file {"path":"/srv/x/a.txt"}`, `filesystem/read_text_file {"path":"/srv/x/b.txt"}`},
		"Read /srv/x/a.txt":                   {ask, `filesystem/read_text_file {"path":"/srv/x/a.txt"}`},
		"show the first 3 lines of a.txt":     {ask, `filesystem/read_text_file {"path":"/srv/x/a.txt","head":3}`},
		"show the last 3 lines of a.txt":      {ask, `filesystem/read_text_file {"path":"/srv/x/a.txt","tail":3}`},
		"list docs":                           {ask, `filesystem/list_directory {"path":"/srv/x/docs"}`},
		"list the files":                      {ask, `filesystem/list_directory {"path":"/srv/x"}`},
		"How many Go files are there?":        {ask, `filesystem/search_files {"path":"/srv/x","pattern":"**/*.go"}`},
		"how big is a.txt":                    {ask, `filesystem/get_file_info {"path":"/srv/x/a.txt"}`},
		"write \"hello\" to notes.txt":        {ask, `filesystem/write_file {"path":"/srv/x/notes.txt","content":"hello"}`},
		"create a directory called build":     {ask, `filesystem/create_directory {"path":"/srv/x/build"}`},
		"move a.txt to b.txt":                 {ask, `filesystem/move_file {"source":"/srv/x/a.txt","destination":"/srv/x/b.txt"}`},
		"show the directory tree":             {ask, `filesystem/directory_tree {"path":"/srv/x"}`},
		"Which file mentions the word pawl?":  nil,
		"find *.proto and read the first one": {ask, `filesystem/search_files {"path":"/srv/x","pattern":"**/*.proto"}`, `filesystem/read_text_file {"path":"/srv/x/a.go"}`},
	} {
		calls, answer := run(t, &plannerv1.TaskContext{Goal: goal, Tools: tools(t, "filesystem", "filesystem", commonv1.Effect_EFFECT_WRITE)}, func(tool, _ string) (string, error) {
			switch tool {
			case "filesystem/list_allowed_directories":
				return `{"message":"Allowed directories:\n/srv/x\n/srv/y"}`, nil
			case "filesystem/search_files":
				return `{"message":"/srv/x/a.go\n/srv/x/b/c.go"}`, nil
			case "filesystem/list_directory":
				return `{"message":"[DIR] sub\n[FILE] a.txt"}`, nil
			}
			return `{"message":"some text"}`, nil
		})
		if d := cmp.Diff(want, calls); d != "" {
			t.Errorf("%q:\n%s", goal, d)
		}
		if strings.HasPrefix(goal, "How many") && !strings.Contains(answer, "There are 2 Go files (**/*.go): /srv/x/a.go, /srv/x/b/c.go.") {
			t.Errorf("%q:\n%s", goal, answer)
		}
		if goal == "list docs" && !strings.Contains(answer, "docs holds 1 folder and 1 file:\n- sub/\n- a.txt") {
			t.Errorf("%q:\n%s", goal, answer)
		}
	}
}

// After a failed step only reading goes on, and no call is repeated.
func TestAfterAFailure(t *testing.T) {
	goal := "delete the path docs/old, then echo done, then count the Go files, then delete the path docs/old"
	calls, answer := run(t, &plannerv1.TaskContext{Goal: goal, Tools: everywhere(t)}, func(tool, in string) (string, error) {
		if strings.HasPrefix(tool, "workspace/") {
			return sample().call(tool, in)
		}
		return "", errors.New("connection refused")
	})
	want := []string{`other/delete_path {"path":"docs/old"}`, `workspace/search_files {"pattern":"**/*.go"}`}
	if d := cmp.Diff(want, calls); d != "" {
		t.Error(d)
	}
	for _, s := range []string{"(other/delete_path) failed: connection refused", "\"echo done\" was not attempted, since a step before it failed and everything/echo may change something.", "3 Go files"} {
		if !strings.Contains(answer, s) {
			t.Errorf("the answer lacks %q:\n%s", s, answer)
		}
	}
}
