package topic_test

import (
	"slices"
	"strings"
	"testing"

	"pawl.dev/executor-svc/internal/topic"
)

// B3, B4, B6, B14.
func TestSettings(t *testing.T) {
	on := true
	for ext, want := range map[string]topic.Settings{
		``:                                  {},
		`{}`:                                {},
		`{"mcp_servers":["a","b","c","a"]}`: {Servers: []string{"a", "b", "c"}},
		`{"selectedMcpServerIds":["a"]}`:    {Servers: []string{"a"}},
		`{"selected_mcp_server_ids":["a"]}`: {Servers: []string{"a"}},
		`{"mcp_servers":[],"selectedMcpServerIds":["b"]}`:                         {Servers: []string{"b"}},
		`{"mcp_servers":null}`:                                                    {},
		`{"user_llm_config_id":"fast","model":"slow"}`:                            {ConfigID: "fast", Model: "slow"},
		`{"use_new_flow":true}`:                                                   {Phases: &on},
		`{"auto_trigger":true,"mcp_error":{"class":"other"}}`:                     {AutoTrigger: true, MCPError: true},
		`{"mcp_error":false}`:                                                     {},
		`{"tool_call":{}}`:                                                        {},
		`{"tool_call":{"server_id":"s"}}`:                                         {},
		`{"tool_call":{"tool_id":"s/t","params":[]}}`:                             {},
		`{"tool_call":{"tool_id":7}}`:                                             {},
		`{"tool_call":"s/t"}`:                                                     {},
		`{"anything":{"else":[1]}}`:                                               {},
		`{"mcp_servers":["a"],"selectedMcpServerIds":["b"],"use_new_flow":false}`: {Servers: []string{"a"}, Phases: new(bool)},
	} {
		got, err := topic.ParseSettings(ext)
		phases := got.Phases == nil && want.Phases == nil || got.Phases != nil && want.Phases != nil && *got.Phases == *want.Phases
		if err != nil || !phases || !slices.Equal(got.Servers, want.Servers) || got.ConfigID != want.ConfigID || got.Model != want.Model ||
			got.AutoTrigger != want.AutoTrigger || got.MCPError != want.MCPError || got.Call != nil {
			t.Errorf("%s: %+v, %v; want %+v", ext, got, err, want)
		}
	}
}

func TestSettingsThatCannotBeUsed(t *testing.T) {
	for ext, want := range map[string]string{
		`{"mcp_servers":["a","b","c","d"]}`: "names 4 servers, and an agent uses at most 3",
		`{"selectedMcpServerIds":"a"}`:      "selectedMcpServerIds must be a list of server ids, is a string",
		`{"mcp_servers":[1]}`:               "has a number",
		`{"mcp_servers":[""]}`:              "has a string",
		`{"use_new_flow":"yes"}`:            "use_new_flow must be a boolean, is a string",
		`{"model":1}`:                       "model must be a string, is a number",
		`{"auto_trigger":1}`:                "auto_trigger must be a boolean, is a number",
	} {
		if _, err := topic.ParseSettings(ext); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", ext, err, want)
		}
	}
}

func TestToolCall(t *testing.T) {
	for ext, want := range map[string]string{
		`{"tool_call":{"server_id":"s","tool_name":"t","params":{"n":1e400},"description":"why"}}`: `s/t {"n":1e400} why`,
		`{"tool_call":{"tool_id":"s/t"}}`: `s/t {} `,
	} {
		got, err := topic.ParseSettings(ext)
		if c := got.Call; err != nil || c == nil || c.GetToolId()+" "+c.GetInputJson()+" "+c.GetDescription() != want {
			t.Errorf("%s: %v, %v", ext, c, err)
		}
	}
}

// B6: the chosen configuration, unless it is the default, then the model by name, then (by the caller) the agent's default.
func TestModelsToTry(t *testing.T) {
	for _, tc := range []struct{ config, model, agent, want string }{
		{"", "", "d", ""}, {"c", "m", "d", "c m"}, {"d", "m", "d", "m"}, {"default", "m", "d", "m"}, {"d", "", "d", ""}, {"c", "", "", "c"},
	} {
		if got := strings.Join(topic.Settings{ConfigID: tc.config, Model: tc.model}.Models(tc.agent), " "); got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}
