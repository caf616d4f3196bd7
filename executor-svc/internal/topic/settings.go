package topic

import (
	"cmp"
	"fmt"
	"slices"

	"pawl.dev/services/strictjson"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// MaxServers is how many MCP servers a message may select.
const MaxServers = 3

// Settings are what agents read of a message's ext.
type Settings struct {
	// Servers are the MCP servers to use; empty: the agent's.
	Servers []string
	// ConfigID and Model name the model; see Models.
	ConfigID, Model string
	// Phases selects the flow's six phases or its rounds; nil: as the agent says.
	Phases *bool
	// AutoTrigger makes agents consider the message although an agent sent it.
	AutoTrigger bool
	// MCPError reports that the message is an agent's report of a failed server.
	MCPError bool
	// Call is the call that the message asks for; nil if there is none, or none that is valid.
	Call *storagev1.ChatCall
}

// Models returns the models to try, best first: user_llm_config_id unless it is the default, then model. If neither exists, the agent's default is used.
func (s Settings) Models(agentDefault string) (names []string) {
	if s.ConfigID != "default" && s.ConfigID != agentDefault {
		names = append(names, s.ConfigID)
	}
	names = append(names, s.Model)
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// ParseSettings reads the exact JSON of a message's ext; "" is an empty ext. The error names the field that cannot be used.
func ParseSettings(ext string) (s Settings, err error) {
	for _, key := range []string{"mcp_servers", "selectedMcpServerIds", "selected_mcp_server_ids"} {
		ids, problem := servers(key, ext)
		err = cmp.Or(err, problem)
		if len(s.Servers) == 0 {
			s.Servers = ids
		}
	}
	read := func(key, kind string, take func(value string)) {
		switch value, ok := strictjson.Member(ext, key); {
		case !ok || value == "null":
		case strictjson.Kind(value) == kind:
			take(value)
		default:
			err = cmp.Or(err, fmt.Errorf("%s must be %s, is %s", key, strictjson.WithArticle(kind), strictjson.WithArticle(strictjson.Kind(value))))
		}
	}
	read("user_llm_config_id", "string", func(v string) { s.ConfigID = strictjson.Unquote(v) })
	read("model", "string", func(v string) { s.Model = strictjson.Unquote(v) })
	read("use_new_flow", "boolean", func(v string) { phases := v == "true"; s.Phases = &phases })
	read("auto_trigger", "boolean", func(v string) { s.AutoTrigger = v == "true" })
	if v, ok := strictjson.Member(ext, "mcp_error"); ok {
		s.MCPError = v != "null" && v != "false"
	}
	if v, ok := strictjson.Member(ext, "tool_call"); ok {
		s.Call = call(v)
	}
	return s, err
}

// servers reads a list of server ids.
func servers(key, ext string) (ids []string, err error) {
	list, ok := strictjson.Member(ext, key)
	if !ok || list == "null" {
		return nil, nil
	}
	if strictjson.Kind(list) != "array" {
		return nil, fmt.Errorf("%s must be a list of server ids, is %s", key, strictjson.WithArticle(strictjson.Kind(list)))
	}
	for item := range strictjson.Items(list) {
		if strictjson.Kind(item) != "string" || item == `""` {
			return nil, fmt.Errorf("%s must be a list of server ids, and has %s", key, strictjson.WithArticle(strictjson.Kind(item)))
		}
		if id := strictjson.Unquote(item); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > MaxServers {
		return nil, fmt.Errorf("%s names %d servers, and an agent uses at most %d for one message; choose %d, or send several messages", key, len(ids), MaxServers, MaxServers)
	}
	return ids, nil
}

// call reads a tool_call: {"tool_id": "server/tool"} or {"server_id", "tool_name"}, with an object "params". It returns nil if the call is not valid.
func call(v string) *storagev1.ChatCall {
	text := func(key string) string {
		member, _ := strictjson.Member(v, key)
		if strictjson.Kind(member) != "string" {
			return ""
		}
		return strictjson.Unquote(member)
	}
	id := text("tool_id")
	if server, tool := text("server_id"), text("tool_name"); id == "" && server != "" && tool != "" {
		id = server + "/" + tool
	}
	input, ok := strictjson.Member(v, "params")
	if !ok || input == "null" {
		input = "{}"
	}
	if id == "" || strictjson.Kind(input) != "object" {
		return nil
	}
	return &storagev1.ChatCall{ToolId: id, InputJson: input, Description: text("description")}
}
