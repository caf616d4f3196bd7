package rest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

func TestDecode(t *testing.T) {
	input, err := structpb.NewStruct(map[string]any{"n": 9007199254740992.0, "f": 0.1, "o": map[string]any{"unknown": []any{nil, true}}})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		body string
		want proto.Message
	}{
		"both kinds of names": {`{"waitId": "w", "approve": {"input_json": "{}"}}`, &executorv1.ResumeTaskRequest{WaitId: "w",
			Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{InputJson: "{}"}}}},
		"null leaves a field out": {`{"waitId": null, "approve": null}`, &executorv1.ResumeTaskRequest{}},
		"free-form JSON": {`{"name": "t", "input": {"n": 9007199254740992, "f": 0.1, "o": {"unknown": [null, true]}}, "timeout": "1.5s"}`,
			&mcppoolv1.CallToolRequest{Name: "t", Input: input, Timeout: durationpb.New(1500e6)}},
		"maps": {`{"toolPolicies": {"a_b": {"effect": "EFFECT_READ"}}, "stdio": {"command": "c", "args": ["-x"], "env": {"A": "1"}}}`,
			&mcppoolv1.McpServer{ToolPolicies: map[string]*mcppoolv1.ToolPolicy{"a_b": {Effect: 1}}, Transport: &mcppoolv1.McpServer_Stdio{
				Stdio: &mcppoolv1.StdioTransport{Command: "c", Args: []string{"-x"}, Env: map[string]string{"A": "1"}}}}},
		"an enum's number": {`{"goal": "g", "language": 2}`, &executorv1.CreateTaskRequest{Goal: "g", Language: 2}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := tt.want.ProtoReflect().New().Interface()
			if err := decode([]byte(tt.body), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeNamesThePlace(t *testing.T) {
	tests := map[string]struct {
		into   proto.Message
		body   string
		detail string
		fields []string
	}{
		"all at once": {&executorv1.CreateTaskRequest{}, "{\n \"gaol\": \"é\", \"lang\": 1,\n \"mcpIDs\": []}",
			`gaol: unknown field "gaol"; did you mean "goal"? (line 2, column 2); lang: unknown field "lang"; use one of: goal, agentId, mcpIds, autoExecute, ` +
				`language, conversationId, playbook, requestId, model, budget, waitTimeout, inputsJson, flow, planOptions (line 2, column 15); mcpIDs: unknown field "mcpIDs"; did you mean "mcpIds"? (line 3, column 2)`,
			[]string{"gaol", "lang", "mcpIDs"}},
		"in a map": {&mcppoolv1.McpServer{}, `{"toolPolicies": {"t": {"efect": 1, "effect": "READ"}}}`,
			`toolPolicies[t].efect: unknown field "efect"; did you mean "effect"? (line 1, column 25); toolPolicies[t].effect: unknown value "READ"; did you mean "EFFECT_READ"?`,
			[]string{"toolPolicies[t].efect", "toolPolicies[t].effect"}},
		"in a message without fields":  {&executorv1.DeleteAgentResponse{}, `{"x": {"y": [1, {"z": 2}]}}`, `none is allowed here`, []string{"x"}},
		"after a character of several": {&executorv1.CreateTaskRequest{}, `{"goal": "日本", x}`, `(line 1, column 16)`, nil},
		"rounded, deep":                {&executorv1.Params{}, `{"content": {"a": [{"b": -9007199254740993}]}}`, `-9007199254740993 would be rounded here; send all of content as JSON text, in the field contentJson instead`, []string{"content"}},
		"rounded, huge":                {&executorv1.Params{}, `{"content": {"a": 123456789012345678901234567890}}`, "would be rounded", []string{"content"}},
		"a list that is none":          {&executorv1.CreateTaskRequest{}, `{"mcpIds": {"a": 1}}`, "(line 1, column 12)", nil},
		"a map that is none":           {&mcppoolv1.McpServer{}, `{"toolPolicies": [1]}`, "(line 1, column 18)", nil},
		"a message that is none":       {&mcppoolv1.McpServer{}, `{"stdio": "npx"}`, "(line 1, column 11)", nil},
		"invalid UTF-8":                {&executorv1.CreateTaskRequest{}, "{\"goal\": \"\xff\"}", "UTF-8", nil},
		"nothing":                      {&executorv1.CreateTaskRequest{}, " ", "unexpected end of JSON input", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := decode([]byte(tt.body), tt.into)
			var e *errs.Error
			if !errors.As(err, &e) || !strings.Contains(e.Message, tt.detail) {
				t.Fatalf("error %v, want one with %q", err, tt.detail)
			}
			var fields []string
			for _, v := range e.Violations {
				fields = append(fields, v.Field)
			}
			if diff := cmp.Diff(tt.fields, fields); tt.fields != nil && diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestManyMistakesAreCut: one answer does not grow with the request.
func TestManyMistakesAreCut(t *testing.T) {
	body := `{"goal": "g"` + strings.Repeat(`, "x": 1`, 1000) + `}`
	var e *errs.Error
	if err := decode([]byte(body), &executorv1.CreateTaskRequest{}); !errors.As(err, &e) || len(e.Violations) != 20 {
		t.Fatalf("error %.200v, want 20 violations", err)
	}
}

// FuzzDecode: whatever a client sends, it is a message or an error of the client's, and what protojson takes is only
// refused for a number that it would round.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"name":"t","input":{"a":[1,{"b":null}]}}`, `{"x":1}`, `[`, `{"input":{"n":9007199254740993}}`, "\"\\ud800\"", `{"a":{"a":{"a":1}}}`, `null`, ` {} `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := decode(data, &mcppoolv1.CallToolRequest{})
		if err != nil && errs.ReasonName(errs.Reason(err)) != "INVALID_REQUEST" {
			t.Errorf("error %v", err)
		}
		if protojson.Unmarshal(data, &mcppoolv1.CallToolRequest{}) == nil && err != nil && !strings.Contains(err.Error(), "would be rounded") {
			t.Errorf("protojson takes it: %v", err)
		}
	})
}

// Bodies that were made to be expensive to inspect: before, a number of 4 MiB took a quarter of a minute, and unknown fields a second per MiB.
func TestDecodeOfHostileBodiesIsCheap(t *testing.T) {
	var fields strings.Builder
	for i := range 400_000 {
		fmt.Fprintf(&fields, `, "unknownfieldname%010d": 0`, i)
	}
	for name, test := range map[string]struct {
		into   proto.Message
		body   string
		detail string
	}{
		"unknown fields": {&executorv1.CreateTaskRequest{}, `{"goal": ""` + fields.String() + "}", "unknownfieldname0000000019"},
		"a number":       {&mcppoolv1.CallToolRequest{}, `{"input": {"n": ` + strings.Repeat("1", 4<<20) + "}}", "would be rounded"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			err := decode([]byte(test.body), test.into)
			if took := time.Since(start); took > 20*time.Second { // it takes hours if each field costs as much as all before it
				t.Errorf("it took %s", took)
			}
			if err == nil || !strings.Contains(err.Error(), test.detail) {
				t.Errorf("error %.300v; want one with %q", err, test.detail)
			}
		})
	}
}
