package llm_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/llm"
)

// transport is a provider: it answers each HTTP request.
type transport func(r *http.Request, body string) *http.Response

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	response := t(r, string(body))
	if response == nil {
		return nil, errors.New("connection reset")
	}
	response.Request = r
	return response, nil
}

func status(code int, body string, header ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func stream(body io.Reader) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}, Body: io.NopCloser(body)}
}

const key = "sk-test-0123456789"

// modelOf makes a model of a provider that t plays.
func modelOf(provider string, retries int, t transport) llm.Model {
	cfg := llm.Config{
		Info:        llm.Info{Name: "it", Provider: provider, ProviderModel: "m-1", Tools: true, Images: true, Schema: true, MaxTokens: 100, Price: &llm.Price{}},
		Credentials: func() (llm.Credentials, error) { return llm.Credentials{Key: key}, nil },
		Retries:     retries,
		Timeout:     time.Hour,
		AtOnce:      1,
		HTTP:        &http.Client{Transport: t},
		Admit:       admit,
		Record:      func(context.Context, *llm.Reply, time.Time, error) {},
	}
	return llm.New(cfg)
}

func admit(context.Context, *llm.Request) (leave func(), err error) { return func() {}, nil }

func hello() *llm.Request {
	return &llm.Request{Messages: []*plannerv1.ModelMessage{llm.UserText("Hello")}, MaxTokens: 100}
}

func structured() *llm.Request {
	r := hello()
	r.Output = &llm.Output{Name: "risk", Schema: `{"type":"object","properties":{"risk":{"type":"string"}},"required":["risk"],"additionalProperties":false}`}
	return r
}

// collect asks a model and checks that the deltas add up to the reply.
func collect(t *testing.T, m llm.Model, r *llm.Request) (*llm.Reply, error) {
	t.Helper()
	text, calls := "", 0
	reply, err := m.Generate(t.Context(), r, func(d llm.Delta) error {
		text += d.Text
		if d.Call {
			calls++
		}
		return nil
	})
	if reply == nil {
		t.Fatalf("no reply, %v", err)
	}
	if text != reply.Text || calls != len(reply.Calls) {
		t.Errorf("the deltas have %q and %d calls, the reply is %+v", text, calls, reply)
	}
	return reply, err
}

var (
	counted = llm.Usage{Input: 1200, Output: 34, Requests: 1}
	cached  = llm.Usage{Input: 1200, CachedInput: 1024, Output: 34, Requests: 1}
	written = llm.Usage{Input: 1200, CachedInput: 1024, CacheWrite: 100, Output: 34, Requests: 1}
	unknown = llm.Usage{Requests: 1, Unreported: true}
	begun   = llm.Usage{Input: 1200, Output: 1, Requests: 1, Unreported: true}
)

func calls(list ...string) []*plannerv1.ModelToolCall {
	var out []*plannerv1.ModelToolCall
	for i := 0; i < len(list); i += 3 {
		out = append(out, &plannerv1.ModelToolCall{Id: list[i], Name: list[i+1], InputJson: list[i+2]})
	}
	return out
}

// answers are the recorded streams and the replies that they are.
var answers = []struct {
	provider, file string
	request        *llm.Request
	want           llm.Reply
	class          llm.Class // "" if the answer is whole
}{
	{"openai", "plain", hello(), llm.Reply{Text: "Grüße, 世界!", Usage: cached}, ""},
	{"openai", "tools", hello(), llm.Reply{Text: "I look.", Calls: calls("call_a", "fs-read", `{"path":"a.txt"}`), Stop: plannerv1.StopReason_STOP_REASON_TOOL_CALLS, Usage: counted}, ""},
	{"openai", "parallel", hello(), llm.Reply{Calls: calls("call_a", "read", `{"n":1}`, "call_b", "read", `{"n":2}`, "call_c", "list", "{}"), Stop: plannerv1.StopReason_STOP_REASON_TOOL_CALLS, Usage: counted}, ""},
	{"openai", "parallel_same_index", hello(), llm.Reply{Calls: calls("x1", "read", `{"n":1}`, "x2", "read", `{"n":2}`), Stop: plannerv1.StopReason_STOP_REASON_TOOL_CALLS, Usage: counted}, ""},
	{"openai", "no_index", hello(), llm.Reply{Calls: calls("x1", "read", `{"n":1}`, "x2", "read", `{"n":2}`), Stop: plannerv1.StopReason_STOP_REASON_TOOL_CALLS, Usage: unknown}, ""},
	{"openai", "structured", structured(), llm.Reply{Text: `{"risk":"LOW"}`, Usage: counted}, ""},
	{"openai", "refusal", hello(), llm.Reply{Text: "I cannot help.", Stop: plannerv1.StopReason_STOP_REASON_REFUSED, Usage: counted}, ""},
	{"openai", "filtered", hello(), llm.Reply{Text: "Well", Stop: plannerv1.StopReason_STOP_REASON_REFUSED, Usage: counted}, ""},
	{"openai", "length", hello(), llm.Reply{Text: "Once upon", Stop: plannerv1.StopReason_STOP_REASON_MAX_TOKENS, Usage: counted}, ""},
	{"openai", "length_in_call", hello(), llm.Reply{Calls: calls("call_a", "write", `{"text":"long`), Stop: plannerv1.StopReason_STOP_REASON_MAX_TOKENS, Usage: counted}, ""},
	{"openai", "cut", hello(), llm.Reply{Text: "Once", Usage: unknown}, llm.Broken},
	{"anthropic", "plain", hello(), llm.Reply{Text: "Grüße, 世界!", Usage: written}, ""},
	{"anthropic", "thinking", hello(), llm.Reply{Text: "Yes", Usage: counted}, ""},
	{"anthropic", "tools", hello(), llm.Reply{Text: "I look.", Calls: calls("toolu_a", "fs-read", `{"path":"a.txt"}`), Stop: plannerv1.StopReason_STOP_REASON_TOOL_CALLS, Usage: counted}, ""},
	{"anthropic", "parallel", hello(), llm.Reply{Calls: calls("toolu_a", "read", `{"n":1}`, "toolu_b", "read", `{"n":2}`, "toolu_c", "list", "{}"), Stop: plannerv1.StopReason_STOP_REASON_TOOL_CALLS, Usage: counted}, ""},
	{"anthropic", "structured", structured(), llm.Reply{Text: `{"risk":"LOW"}`, Usage: counted}, ""},
	{"anthropic", "refusal", hello(), llm.Reply{Text: "I cannot", Stop: plannerv1.StopReason_STOP_REASON_REFUSED, Usage: counted}, ""},
	{"anthropic", "length", hello(), llm.Reply{Text: "Once upon", Stop: plannerv1.StopReason_STOP_REASON_MAX_TOKENS, Usage: counted}, ""},
	{"anthropic", "stop_sequence", hello(), llm.Reply{Text: "Once", Stop: plannerv1.StopReason_STOP_REASON_STOP_SEQUENCE, Usage: counted}, ""},
	{"anthropic", "length_in_call", hello(), llm.Reply{Calls: calls("toolu_a", "write", `{"text":"long`), Stop: plannerv1.StopReason_STOP_REASON_MAX_TOKENS, Usage: counted}, ""},
	{"anthropic", "cut", hello(), llm.Reply{Text: "Once", Usage: begun}, llm.Broken},
}

// TestAnswers reads the recorded streams in two pieces, split at every byte, and byte by byte.
func TestAnswers(t *testing.T) {
	for _, tt := range answers {
		t.Run(tt.provider+"/"+tt.file, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata", tt.provider, tt.file+".sse"))
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.Stop == 0 && tt.class == "" {
				tt.want.Stop = plannerv1.StopReason_STOP_REASON_END
			}
			tt.want.Name = "it"
			tt.want.Model = map[string]string{"openai": "gpt-test-2026", "anthropic": "claude-test-2026"}[tt.provider]
			bodies := []io.Reader{iotest.OneByteReader(bytes.NewReader(raw)), iotest.DataErrReader(bytes.NewReader(raw))}
			for i := range raw {
				bodies = append(bodies, io.MultiReader(bytes.NewReader(raw[:i]), bytes.NewReader(raw[i:])))
			}
			for i, body := range bodies {
				reply, err := collect(t, modelOf(tt.provider, 0, func(*http.Request, string) *http.Response { return stream(body) }), tt.request)
				if llm.ClassOf(err) != tt.class || (err == nil) != (tt.class == "") {
					t.Fatalf("split %d: %v, want %q", i, err, tt.class)
				}
				if diff := cmp.Diff(&tt.want, reply, protocmp.Transform()); diff != "" {
					t.Fatalf("split %d: %s", i, diff)
				}
			}
		})
	}
}

// TestCutAnywhere cuts the connection after every byte: the reply is whole, or there is an error and what came before it.
func TestCutAnywhere(t *testing.T) {
	for _, tt := range answers {
		if tt.class != "" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("testdata", tt.provider, tt.file+".sse"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			body := io.MultiReader(bytes.NewReader(raw[:i]), iotest.ErrReader(io.ErrUnexpectedEOF))
			reply, err := modelOf(tt.provider, 0, func(*http.Request, string) *http.Response { return stream(body) }).Generate(t.Context(), tt.request, nil)
			switch {
			case err == nil && (reply.Text != tt.want.Text || len(reply.Calls) != len(tt.want.Calls) || reply.Stop != max(tt.want.Stop, plannerv1.StopReason_STOP_REASON_END)):
				t.Errorf("%s/%s cut at %d: %+v", tt.provider, tt.file, i, reply)
			case err != nil && llm.ClassOf(err) != llm.Unavailable:
				t.Errorf("%s/%s cut at %d: %v", tt.provider, tt.file, i, err)
			case !strings.HasPrefix(tt.want.Text, reply.Text) || reply.Usage.Requests != 1:
				t.Errorf("%s/%s cut at %d: %+v", tt.provider, tt.file, i, reply)
			}
		}
	}
}

// TestDeltaErrors ends a reply when its reader does, and when the context ends.
func TestDeltaErrors(t *testing.T) {
	for _, provider := range []string{"openai", "anthropic"} {
		raw, err := os.ReadFile(filepath.Join("testdata", provider, "tools.sse"))
		if err != nil {
			t.Fatal(err)
		}
		m := modelOf(provider, 2, func(*http.Request, string) *http.Response { return stream(bytes.NewReader(raw)) })
		enough := errors.New("enough")
		if reply, err := m.Generate(t.Context(), hello(), func(llm.Delta) error { return enough }); !errors.Is(err, enough) || reply.Text != "I look." {
			t.Errorf("%s: %v, %+v", provider, err, reply)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		reply, err := m.Generate(ctx, hello(), func(d llm.Delta) error {
			cancel(enough)
			return nil
		})
		if err != nil && !errors.Is(err, enough) || reply.Text != "I look." || reply.Usage.Requests != 1 {
			t.Errorf("%s: %v, %+v", provider, err, reply)
		}
	}
}

// TestInterleavedCalls reads calls whose arguments arrive in turns.
func TestInterleavedCalls(t *testing.T) {
	body := ""
	for _, piece := range []string{
		`{"index":0,"id":"a","function":{"name":"read","arguments":"{\"n\""}}`, `{"index":1,"id":"b","function":{"name":"read","arguments":"{\"n\""}}`,
		`{"index":0,"function":{"arguments":":1}"}}`, `{"index":1,"function":{"arguments":":2}"}}`,
	} {
		body += `data: {"choices":[{"delta":{"tool_calls":[` + piece + "]}}]}\n\n"
	}
	body += "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n"
	reply, err := collect(t, modelOf("openai", 0, func(*http.Request, string) *http.Response { return stream(strings.NewReader(body)) }), hello())
	if diff := cmp.Diff(calls("a", "read", `{"n":1}`, "b", "read", `{"n":2}`), reply.Calls, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
}

func FuzzAnswer(f *testing.F) {
	for _, tt := range answers {
		raw, err := os.ReadFile(filepath.Join("testdata", tt.provider, tt.file+".sse"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, provider := range []string{"openai", "anthropic"} {
			m := modelOf(provider, 0, func(*http.Request, string) *http.Response { return stream(bytes.NewReader(raw)) })
			reply, err := m.Generate(t.Context(), hello(), nil)
			if reply == nil || err != nil && llm.ClassOf(err) == "" {
				t.Fatalf("%s: %v, %v", provider, reply, err)
			}
		}
	})
}
