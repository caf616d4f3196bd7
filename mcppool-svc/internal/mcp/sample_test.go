package mcp

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

// knows is a model that answers Paris.
func knows(context.Context, Sample) (Sampled, error) {
	return Sampled{Text: "Paris", Model: "m", Stop: "endTurn"}, nil
}

func dialSampling(t *testing.T, s *registry.Server) Client {
	t.Helper()
	s.Sampling = &registry.Sampling{}
	return dialServer(t, newConnector(t, Config{}), s)
}

// MCP tasks may ask models too: by a request of the server, or by the input that the task's state requires.
func TestTasksThatSample(t *testing.T) {
	for name, c := range map[string]Client{
		"stdio/2025": dialSampling(t, &registry.Server{ID: "fake", Stdio: mcptest.Stdio(mcptest.Good)}),
		"stdio/2026": dialSampling(t, &registry.Server{ID: "fake", Stdio: mcptest.Stdio(mcptest.Modern)}),
		"http/2026":  dialSampling(t, webServer(serveWeb(t, mcptest.Web(mcptest.Modern)))),
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := c.CallTool(t.Context(), Call{Name: "samplingjob", Arguments: strictjson.Checked(`{}`), Sample: knows, Task: true})
			if err != nil || !strings.Contains(string(raw), "Paris") {
				t.Errorf("%s, %v", raw, err)
			}
		})
	}
}

// The capability is announced only if sampling is allowed.
func TestSamplingIsAnnounced(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		s := &registry.Server{ID: "s"}
		if allowed {
			s.Sampling = &registry.Sampling{}
		}
		can := newConnector(t, Config{}).newClient(s, legacy).capabilities()
		if (can.Sampling != nil) != allowed {
			t.Errorf("allowed %v: %+v", allowed, can.Sampling)
		}
		if allowed && (can.Sampling.Tools != nil || can.Sampling.Context != nil) {
			t.Errorf("announced %+v", can.Sampling)
		}
	}
}

// A server that withdraws its request ends the model request.
func TestSampleWithdrawn(t *testing.T) {
	c := dialSampling(t, &registry.Server{ID: "fake", Stdio: mcptest.Stdio(mcptest.Good)}).(*client)
	seven := questionKey{request: "7"}
	r := &running{ctx: t.Context(), call: Call{Sample: func(ctx context.Context, _ Sample) (Sampled, error) {
		c.endQuestion(seven, errWithdrawn)
		<-ctx.Done()
		return Sampled{}, ctx.Err()
	}}}
	if _, err := c.resolve(t.Context(), r, input{sample: &Sample{}}, seven); !errors.Is(err, errWithdrawn) {
		t.Errorf("error = %v", err)
	}
	// So does the end of the connection.
	r.call.Sample = func(ctx context.Context, _ Sample) (Sampled, error) {
		go func() { _ = c.Close() }()
		<-ctx.Done()
		return Sampled{}, ctx.Err()
	}
	if _, err := c.resolve(t.Context(), r, input{sample: &Sample{}}); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("error = %v", err)
	}
}

func FuzzReadSample(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"maxTokens":1}`)
	f.Add(`{"messages":[{"role":"user","content":[{"type":"image","data":"cG5n","mimeType":"image/png"}]}],"maxTokens":1e300,"temperature":-0}`)
	f.Fuzz(func(t *testing.T, raw string) {
		s, err := readSample([]byte(raw))
		if err != nil {
			return
		}
		for _, m := range s.Messages {
			for _, p := range m.Parts {
				if m.Role == "" || p.Kind != "text" && len(p.Data) == 0 || s.MaxTokens < 0 {
					t.Errorf("%+v", s)
				}
			}
		}
	})
}
