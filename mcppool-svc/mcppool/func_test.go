package mcppool

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// nothing is a tool that does nothing.
var nothing = Func{Name: "nothing", Call: func(context.Context, json.RawMessage) (Result, error) { return Result{}, nil }}

// reader is a read-only tool that runs call.
func reader(name string, call func(ctx context.Context, arguments json.RawMessage) (Result, error)) Func {
	return Func{Name: name, ReadOnly: true, Call: call}
}

func startFuncs(t *testing.T, tools ...Func) mcppoolv1.McpPoolServiceClient {
	t.Helper()
	return startWith(t, Config{MaxMessageBytes: 1 << 16}, Deps{Builtins: map[string]Builtin{"own": {Tools: tools}}}).as("ann")
}

// A Func's fields become the tool's definition and effect.
func TestFuncDefinitions(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","required":["x"]}`)
	client := startFuncs(t, nothing, Func{Name: "look", Title: "Look", Description: "Looks.", ReadOnly: true, Input: schema, Output: schema, Call: nothing.Call},
		Func{Name: "add", Additive: true, Idempotent: true, Call: nothing.Call})
	list, err := client.ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "own"})
	if err != nil {
		t.Fatal(err)
	}
	effects := make(map[string]commonv1.Effect)
	for _, tool := range list.GetTools() {
		effects[tool.GetName()] = tool.GetEffect()
		if tool.GetName() == "look" && (tool.GetInputSchemaJson() != string(schema) || tool.GetDescription() != "Looks." || tool.GetTitle() != "Look") {
			t.Errorf("%v", tool)
		}
	}
	want := map[string]commonv1.Effect{
		"nothing": commonv1.Effect_EFFECT_DESTRUCTIVE, "look": commonv1.Effect_EFFECT_READ, "add": commonv1.Effect_EFFECT_WRITE,
	}
	if d := cmp.Diff(want, effects); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Functions have no resources and prompts: lists are empty, as those of other servers without them, and the error of a query names what was
// requested.
func TestFuncsOfferToolsOnly(t *testing.T) {
	client := startFuncs(t, nothing)
	resources, err := client.ListResources(t.Context(), &mcppoolv1.ListResourcesRequest{McpId: "own"})
	prompts, promptsErr := client.ListPrompts(t.Context(), &mcppoolv1.ListPromptsRequest{McpId: "own"})
	templates, templatesErr := client.ListResourceTemplates(t.Context(), &mcppoolv1.ListResourceTemplatesRequest{McpId: "own"})
	if err := errors.Join(err, promptsErr, templatesErr); err != nil || len(resources.GetResources())+len(prompts.GetPrompts())+len(templates.GetResourceTemplates()) > 0 {
		t.Errorf("lists: %v, %v, %v, %v", resources, prompts, templates, err)
	}
	_, err = client.ReadResource(t.Context(), &mcppoolv1.ReadResourceRequest{McpId: "own", Uri: "file:///a"})
	wantReason(t, err, "INVALID_REQUEST", "does not offer resources")
	_, err = client.GetPrompt(t.Context(), &mcppoolv1.GetPromptRequest{McpId: "own", Name: "p"})
	wantReason(t, err, "INVALID_REQUEST", "does not offer prompts")
}

// Whatever a function returns arrives as if an MCP server had sent it.
func TestFuncResults(t *testing.T) {
	client := startFuncs(t,
		reader("blocks", func(_ context.Context, arguments json.RawMessage) (Result, error) {
			return Result{
				Text: string(arguments), Structured: json.RawMessage(`{"a":[1]}`),
				Content: []Content{{Text: "é\"\n\xff"}, {MIMEType: "image/png", Data: []byte{1}}, {MIMEType: "audio/wav", Data: []byte{2}}},
			}, nil
		}),
		reader("fails", func(context.Context, json.RawMessage) (Result, error) { return Result{}, errors.New("no such file") }),
	)
	got := invoke(t, client, &mcppoolv1.CallToolRequest{McpId: "own", Name: "blocks", InputJson: `{"n":9007199254740993}`})
	if got.err != nil {
		t.Fatal(got.err)
	}
	blocks := got.result.GetContent()
	if len(blocks) != 4 || blocks[0].GetText() != `{"n":9007199254740993}` || blocks[1].GetText() != "é\"\n\uFFFD" ||
		blocks[2].GetImage().GetMimeType() != "image/png" || string(blocks[3].GetAudio().GetData()) != "\x02" {
		t.Errorf("blocks %v", blocks)
	}
	if got.result.GetStructuredJson() != `{"a":[1]}` || got.result.GetIsError() {
		t.Errorf("result %v", got.result)
	}
	got = invoke(t, client, &mcppoolv1.CallToolRequest{McpId: "own", Name: "fails"})
	if got.err != nil || !got.result.GetIsError() || got.text() != "no such file" {
		t.Errorf("%v, %v", got.result, got.err)
	}
}

// A result that cannot be passed on is an error, and a panic ends only its call.
func TestFuncsThatMisbehave(t *testing.T) {
	returns := func(name string, r Result) Func {
		return reader(name, func(context.Context, json.RawMessage) (Result, error) { return r, nil })
	}
	broken := returns("broken promise", Result{Structured: json.RawMessage(`{"y":1}`)})
	broken.Output = json.RawMessage(`{"type":"object","required":["x"]}`)
	strict := Func{Name: "strict", ReadOnly: true, Input: json.RawMessage(`{"type":"object","required":["x"]}`), Call: func(context.Context, json.RawMessage) (Result, error) {
		t.Error("a function was called with arguments that do not fit")
		return Result{}, nil
	}}
	client := startFuncs(t, broken, strict,
		returns("two keys", Result{Structured: json.RawMessage(`{"a":1,"a":2}`)}),
		returns("no JSON", Result{Structured: json.RawMessage(`{`)}),
		returns("deep", Result{Structured: json.RawMessage(strings.Repeat("[", 300) + strings.Repeat("]", 300))}),
		returns("csv", Result{Content: []Content{{MIMEType: "text/csv"}}}),
		returns("long", Result{Text: strings.Repeat("x", 1<<16)}),
		reader("panics", func(context.Context, json.RawMessage) (Result, error) { panic("boom") }),
		reader("exits", func(context.Context, json.RawMessage) (Result, error) { runtime.Goexit(); return Result{}, nil }),
		returns("good", Result{Text: "ok"}),
	)
	for name, want := range map[string]struct {
		reason  commonv1.ErrorReason
		outcome string
		says    string
	}{
		"two keys":       {commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR, errs.OutcomeKnown, "comes twice"},
		"no JSON":        {commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR, errs.OutcomeKnown, "unexpected end of JSON input"},
		"deep":           {commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR, errs.OutcomeKnown, "nested"},
		"csv":            {commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR, errs.OutcomeKnown, "neither an image nor audio"},
		"broken promise": {commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR, errs.OutcomeKnown, "output schema"},
		"long":           {commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, errs.OutcomeKnown, "returned more than 65536 bytes"},
		"panics":         {commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED, errs.OutcomeKnown, "the tool panicked: boom"},
		"exits":          {commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR, errs.OutcomeKnown, "ended its goroutine"},
		"strict":         {commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, errs.OutcomeNotExecuted, "x"},
		"unknown":        {commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND, errs.OutcomeNotExecuted, "unknown"},
	} {
		got := invoke(t, client, &mcppoolv1.CallToolRequest{McpId: "own", Name: name})
		e := errs.From(got.err)
		if got.err == nil || e.Reason != want.reason || e.Metadata[errs.OutcomeKey] != want.outcome || !strings.Contains(got.err.Error(), want.says) {
			t.Errorf("%s: %v, %v, %s", name, got.err, e.Reason, e.Metadata[errs.OutcomeKey])
		}
	}
	if got := invoke(t, client, &mcppoolv1.CallToolRequest{McpId: "own", Name: "good"}); got.err != nil || got.text() != "ok" {
		t.Errorf("%v, %v", got.result, got.err)
	}
}

// A call ends with its timeout or its caller, even if the function ignores its context.
func TestFuncsThatAreInterrupted(t *testing.T) {
	stuck, begun := make(chan struct{}), make(chan struct{}, 1)
	defer close(stuck)
	ended := make(chan struct{})
	client := startFuncs(t,
		reader("stuck", func(ctx context.Context, _ json.RawMessage) (Result, error) {
			begun <- struct{}{}
			<-stuck
			Progress(ctx, 1, 1, "too late") // the caller has left
			return Result{}, nil
		}),
		reader("obeys", func(ctx context.Context, _ json.RawMessage) (Result, error) {
			Progress(ctx, 1, 2, "half")
			Log(ctx, "info", "going \"on\"")
			<-ctx.Done()
			close(ended)
			return Result{}, ctx.Err()
		}),
	)
	for _, name := range []string{"stuck", "obeys"} {
		got := invoke(t, client, &mcppoolv1.CallToolRequest{McpId: "own", Name: name, Timeout: durationpb.New(20 * time.Millisecond)})
		if e := errs.From(got.err); e.Reason != commonv1.ErrorReason_ERROR_REASON_TIMEOUT || e.Metadata[errs.OutcomeKey] != errs.OutcomeUnknown {
			t.Errorf("%s: %v", name, got.err)
		}
		if name == "obeys" && (len(got.events) != 2 || got.events[0].GetProgress().GetMessage() != "half" || got.events[1].GetLog().GetDataJson() != `"going \"on\""`) {
			t.Errorf("told %v", got.events)
		}
	}
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if got := invokeCtx(ctx, client, &mcppoolv1.CallToolRequest{McpId: "own", Name: "stuck"}); errs.From(got.err).Code != codes.Canceled {
		t.Errorf("cancelled: %v", got.err)
	}
	<-ended // with the call's time
}
