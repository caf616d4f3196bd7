package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// decline is the answer of a person who declines.
const decline = "decline"

// use is one call of a tool of a foreign server, and the result that it must have.
type use struct {
	tool, input string // no input is {}
	// answers are the accepted answers, as JSON, or decline, one for each question of the server.
	answers []string
	// asks are parts of the texts or addresses that the person is shown, one for each question.
	asks []string
	// mayAsk: how many questions reach the person is not checked, because the call fails for another of its requests.
	mayAsk bool
	// wants are parts of the tool's result, as show writes it.
	wants []string
	// failed: the tool reports an error; wants are then parts of that.
	failed bool
	// refused is the status that the call ends with instead of a result; wants are then parts of the error.
	refused codes.Code
	// progress, logs and task must be seen meanwhile.
	progress, logs, task bool
	// after checks further effects of the call; may be nil.
	after func(*testing.T)
}

// outcome is the result of one use.
type outcome struct {
	result         *mcppoolv1.CallResult
	err            error
	asked          []string
	progress, logs int
	task           *mcppoolv1.CallTask
}

// visitor calls tools of one server.
type visitor struct {
	pool   mcppoolv1.McpPoolServiceClient
	id     string
	prefix string // of the names of its calls
	calls  int
}

// useAll uses the tools of a server in the order given, and fails for a tool that it has and the table does not use.
func useAll(t *testing.T, pool mcppoolv1.McpPoolServiceClient, id string, uses []use) {
	v := &visitor{pool: pool, id: id}
	offered := v.tools(t)
	for _, u := range uses {
		t.Run(u.tool, func(t *testing.T) {
			if !slices.Contains(offered, u.tool) {
				t.Fatalf("%s does not offer it; it offers %v", id, offered)
			}
			u.judge(t, v.use(t.Context(), u))
			if u.after != nil {
				u.after(t)
			}
		})
	}
	for _, name := range offered {
		if !slices.ContainsFunc(uses, func(u use) bool { return u.tool == name }) {
			t.Errorf("no entry uses %s of %s", name, id)
		}
	}
}

// tools lists a server's tools and checks the pool's description of each.
func (v *visitor) tools(t *testing.T) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	list, err := v.pool.ListTools(ctx, &mcppoolv1.ListToolsRequest{McpId: v.id, PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.GetTools() {
		names = append(names, tool.GetName())
		if tool.GetId() != v.id+"/"+tool.GetName() || tool.GetInputSchemaJson() == "" || len(tool.GetDefinitionHash()) != 64 ||
			tool.GetEffect() == commonv1.Effect_EFFECT_UNSPECIFIED {
			t.Errorf("tool %v", tool)
		}
	}
	return names
}

// use makes the call, and answers its questions.
func (v *visitor) use(ctx context.Context, u use) (o outcome) {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	v.calls++
	req := &mcppoolv1.CallToolRequest{McpId: v.id, Name: u.tool, InputJson: u.input, CallId: fmt.Sprintf("%s%s/%s/%d", v.prefix, v.id, u.tool, v.calls)}
	if req.InputJson == "" {
		req.InputJson = "{}"
	}
	stream, err := v.pool.CallTool(ctx, req)
	for err == nil {
		var m *mcppoolv1.CallToolResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		switch {
		case m.GetProgress() != nil:
			o.progress++
		case m.GetLog() != nil:
			o.logs++
		case m.GetTask() != nil:
			o.task = m.GetTask()
		case m.GetResult() != nil:
			o.result = m.GetResult()
		case m.GetInputRequired() != nil:
			err = v.answer(ctx, req.GetCallId(), m.GetInputRequired(), u, &o)
		}
	}
	if !errors.Is(err, io.EOF) {
		o.err = err
	}
	return o
}

func (v *visitor) answer(ctx context.Context, callID string, q *mcppoolv1.CallInputRequired, u use, o *outcome) error {
	n := len(o.asked)
	o.asked = append(o.asked, strings.TrimSpace(q.GetMessage()+" "+q.GetUrl()+" "+q.GetSchemaJson()))
	answer := &mcppoolv1.CallAnswer{InputId: q.GetInputId(), Action: mcppoolv1.CallAnswer_ACTION_DECLINE}
	if n < len(u.answers) && u.answers[n] != decline {
		answer.Action, answer.ContentJson = mcppoolv1.CallAnswer_ACTION_ACCEPT, u.answers[n]
	}
	_, err := v.pool.AnswerCall(ctx, &mcppoolv1.AnswerCallRequest{CallId: callID, Answer: answer})
	if status.Code(err) == codes.FailedPrecondition {
		return nil // there are no further questions; the end of the call shows why
	}
	return err
}

// judge compares the result with the expected one.
func (u use) judge(t *testing.T, o outcome) {
	t.Helper()
	got := show(o.result)
	switch {
	case status.Code(o.err) != u.refused:
		t.Errorf("error = %v, want %v", o.err, u.refused)
	case o.err != nil:
		got = o.err.Error()
	case o.result.GetIsError() != u.failed:
		t.Errorf("the tool says that it failed: %v", o.result.GetIsError())
	}
	for _, want := range u.wants {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in what it gives:\n%s", want, got)
		}
	}
	if len(o.asked) != len(u.asks) && !u.mayAsk {
		t.Errorf("it asks for %d things, want %q: %.1000q", len(o.asked), u.asks, o.asked)
	}
	for i := range min(len(o.asked), len(u.asks)) {
		if !strings.Contains(o.asked[i], u.asks[i]) {
			t.Errorf("it asks for %q, want %q", o.asked[i], u.asks[i])
		}
	}
	if u.progress && o.progress == 0 || u.logs && o.logs == 0 || u.task != (o.task != nil) {
		t.Errorf("%d times progress, %d logs, task %v", o.progress, o.logs, o.task)
	}
}

// show is a result as text, a line for each part.
func show(r *mcppoolv1.CallResult) string {
	var b strings.Builder
	for _, c := range r.GetContent() {
		switch {
		case c.GetImage() != nil:
			fmt.Fprintf(&b, "image %s %d bytes\n", c.GetImage().GetMimeType(), len(c.GetImage().GetData()))
		case c.GetAudio() != nil:
			fmt.Fprintf(&b, "audio %s %d bytes\n", c.GetAudio().GetMimeType(), len(c.GetAudio().GetData()))
		case c.GetResource() != nil:
			e := c.GetResource()
			fmt.Fprintf(&b, "resource %s %s %s %d bytes\n", e.GetUri(), e.GetMimeType(), e.GetText(), len(e.GetBlob()))
		case c.GetResourceLink() != nil:
			fmt.Fprintf(&b, "link %s %s %s\n", c.GetResourceLink().GetUri(), c.GetResourceLink().GetName(), c.GetResourceLink().GetMimeType())
		default:
			fmt.Fprintf(&b, "text %s\n", c.GetText())
		}
	}
	if r.GetStructuredJson() != "" {
		fmt.Fprintf(&b, "structured %s\n", r.GetStructuredJson())
	}
	return b.String()
}
