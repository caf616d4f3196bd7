package mcpserver

import (
	_ "embed"
	"encoding/json"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// searchMode is the mode in which two tools stand for those of servers, so that a client with many of them does not list them all.
const searchMode = "search"

// searchDefinitions are the definitions of the two tools.
//
//go:embed search.json
var searchDefinitions string

type searchArguments struct {
	Query string `json:"query"`
	Limit uint32 `json:"limit"`
}

// searchTools answers with the definitions of the tools that match a query best, in the planner's order. A server that cannot be reached is left out,
// unless it is the only one.
func (q *request) searchTools(a searchArguments) (err error) {
	servers := []string{q.server}
	if q.server == "" {
		if servers, err = q.servers(); err != nil {
			return err
		}
	}
	req := &plannerv1.RankToolsRequest{Query: a.Query, Limit: a.Limit}
	definitions := map[string]string{}
	for i, page := range toolList.pages(q, servers, "", "", true) {
		if q.server != "" && page.err != nil {
			return page.err
		}
		for _, definition := range page.entries {
			tool := fieldsOf(definition)
			name := tool.text("name")
			req.Tools = append(req.Tools, &commonv1.Tool{
				Id: name, Name: name, Title: tool.text("title"), Description: tool.text("description"), InputSchemaJson: string(tool["inputSchema"]),
			})
			if q.server == "" {
				req.Tools[len(req.Tools)-1].Id = publicName("name", servers[i], name)
				definition, _ = rename(definition, "name", servers[i])
			}
			definitions[req.Tools[len(req.Tools)-1].GetId()] = definition
		}
	}
	ranked, err := q.planner.RankTools(q.Context(), req)
	if err != nil {
		return err
	}
	found := make([]json.RawMessage, 0, len(ranked.GetToolIds()))
	for _, id := range ranked.GetToolIds() {
		found = append(found, jsonOf(definitions[id]))
	}
	return q.replyStructured(map[string]any{"tools": found, "searched": len(req.GetTools())})
}

// unwrapCall makes the call of the tool call_tool the call that is its argument.
func (q *request) unwrapCall() error {
	arguments := q.params.object("arguments")
	if arguments.text("tool") == "" {
		return errorf(invalidParams, "call_tool needs the argument tool: a name that search_tools returns")
	}
	q.params["name"], q.params["arguments"] = arguments["tool"], arguments["arguments"]
	return nil
}
