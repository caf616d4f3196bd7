package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/toolcall"
)

// prepare runs ToolPreparation with a new request, after change.
func prepare(t *testing.T, native bool, change func(*Exchange)) (*Exchange, error) {
	t.Helper()
	x := exchange()
	x.Offered, x.ByName = nil, map[string]*commonv1.Tool{}
	change(x)
	p := &ToolPreparation{Planner: &planner{native: native}, Lister: toolcall.NewLister(), Route: here, Pool: &pool{list: func(id string) ([]*commonv1.Tool, error) {
		switch id {
		case "fs":
			return tools(), nil
		case "many":
			var all []*commonv1.Tool
			for i := range 129 {
				all = append(all, &commonv1.Tool{Id: fmt.Sprintf("many/t%d", i), McpId: "many", Name: fmt.Sprintf("t%d", i)})
			}
			return all, nil
		case "down":
			return nil, errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, "it does not start")
		case "closed":
			return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED, "log in")
		case "inactive":
			return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE, "activate it")
		}
		return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND, "there is no such server")
	}}}
	return x, p.Process(t.Context(), x)
}

func offered(x *Exchange) string {
	var names []string
	for _, t := range x.Offered {
		names = append(names, t.GetName())
	}
	return strings.Join(names, " ")
}

// C6: native tools where the model has them, else one description in the system text, which is never added twice.
func TestToolPreparation(t *testing.T) {
	own := &plannerv1.ModelTool{Name: "weather"}
	x, err := prepare(t, true, func(x *Exchange) { x.Request.Tools, x.System = []*plannerv1.ModelTool{own}, "Be brief." })
	if err != nil || offered(x) != "fs__read fs__write weather" || !x.Native || x.System != "Be brief." || x.ByName["fs__read"].GetId() != "fs/read" {
		t.Error(x, err)
	}
	x, err = prepare(t, false, func(x *Exchange) { x.System = "Be brief." })
	if err != nil || x.Native || !strings.HasPrefix(x.System, "Be brief.\n\n"+describedTools) || strings.Count(x.System, "## fs__read") != 1 {
		t.Error(x, err)
	}
	described := x.System
	if x, err = prepare(t, false, func(x *Exchange) { x.System = described }); err != nil || x.System != described {
		t.Errorf("described again: %s, %v", x.System, err)
	}
	// A named model counts, not the default; without tools the model is not asked.
	if x, err = prepare(t, true, func(x *Exchange) { x.Request.Model = "other" }); err != nil || x.Native {
		t.Error(x, err)
	}
	if x, err = prepare(t, false, func(x *Exchange) { x.Request.McpIds = nil }); err != nil || !x.Native || x.System != "" {
		t.Error(x, err)
	}
	if x, err = prepare(t, true, func(x *Exchange) { x.Request.AllowedToolIds = []string{"fs/write"} }); err != nil || offered(x) != "fs__write" {
		t.Error(offered(x), err)
	}
}

// C4, C13: an unknown or inactive server is an error; one that does not work now is a note.
func TestToolPreparationOfServers(t *testing.T) {
	for id, want := range map[string]commonv1.ErrorReason{
		"nowhere": commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND, "inactive": commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE,
	} {
		if _, err := prepare(t, true, func(x *Exchange) { x.Request.McpIds = []string{"fs", id} }); errs.Reason(err) != want {
			t.Errorf("%s: %v", id, err)
		}
	}
	x, err := prepare(t, true, func(x *Exchange) { x.Request.McpIds = []string{"down", "fs", "closed"} })
	notes := x.Response.GetNotes()
	if err != nil || offered(x) != "fs__read fs__write" || len(notes) != 2 || notes[0].GetMcpId() != "down" || notes[1].GetReason() != commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED {
		t.Error(x, err)
	}
	if _, events := drained(x.Out); len(events) != 2 {
		t.Error(events)
	}
}

func TestToolPreparationRefuses(t *testing.T) {
	for field, change := range map[string]func(*Exchange){
		"allowed_tool_ids": func(x *Exchange) { x.Request.McpIds = []string{"many"} },
		"tools":            func(x *Exchange) { x.Request.Tools = []*plannerv1.ModelTool{{Name: "fs__read"}} },
		"tool_choice_name": func(x *Exchange) { x.Request.ToolChoiceName = "fs/nothing" },
	} {
		_, err := prepare(t, true, change)
		var e *errs.Error
		if !errors.As(err, &e) || len(e.Violations) != 1 || e.Violations[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
