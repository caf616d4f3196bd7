package mcp

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

// Tools that ask by their result (2026-07-28), over both transports.
func TestRounds(t *testing.T) {
	const ada, lovelace = `{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}`, `{\"action\":\"accept\",\"content\":{\"name\":\"Lovelace\"}}`
	tests := []struct {
		tool, args string
		answer     func(context.Context, Question) (Answer, error)
		want, fail string
		ids        []string
	}{
		{"form", `{}`, says, ada, "", []string{"r1:name"}},
		{"form", `{}`, declines, `{\"action\":\"decline\"}`, "", []string{"r1:name"}},
		{"form2", `{}`, says, ada + " " + lovelace, "", []string{"r1:name", "r2:name"}},
		{"both", `{}`, says, ada + " " + lovelace, "", []string{"r1:a", "r1:b"}},
		{"shed", `{"n":2}`, says, "at last", "", nil},
		{"needmodel", `{}`, says, "", "sampling", nil},
		{"needroots", `{}`, says, "", "no roots are configured", nil},
		{"huge", `{"n":1100000}`, says, "", "more than 1024 KiB", nil},
		{"form", `{}`, func(context.Context, Question) (Answer, error) {
			return Answer{}, errors.New("not so")
		}, "", "not so", []string{"r1:name"}},
	}
	for name, c := range map[string]Client{
		"stdio": dial(t, mcptest.Modern),
		"http":  dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, mcptest.Web(mcptest.Modern)))),
	} {
		for _, tt := range tests {
			t.Run(name+"/"+tt.tool, func(t *testing.T) {
				p := &person{answer: tt.answer}
				got, err := p.call(t, c, tt.tool, tt.args)
				if tt.fail != "" {
					if e := As(err); err == nil || !strings.Contains(e.Message, tt.fail) || !e.Ended {
						t.Errorf("error = %v, want one with %q", err, tt.fail)
					}
				} else if err != nil || !strings.Contains(got, tt.want) {
					t.Errorf("result = %s, %v; want %s", got, err, tt.want)
				}
				var ids []string
				for _, q := range p.questions() {
					ids = append(ids, q.ID)
				}
				if slices.Sort(ids); !slices.Equal(ids, tt.ids) {
					t.Errorf("asked %v, want %v", ids, tt.ids)
				}
			})
		}
	}
}

func TestRoundsWithRoots(t *testing.T) {
	c := dial(t, mcptest.Modern).(*client)
	c.roots = []string{"file:///data"}
	got, err := (&person{answer: says}).call(t, c, "needroots", `{}`)
	if err != nil || !strings.Contains(got, `file:///data`) {
		t.Errorf("result = %s, %v", got, err)
	}
}

// Another connection can continue a call with the state that its question carried.
func TestRoundsContinueElsewhere(t *testing.T) {
	url := serveWeb(t, mcptest.Web(mcptest.Modern))
	p := &person{answer: waits}
	first := dialServer(t, newConnector(t, Config{}), webServer(url))
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan Question, 1)
	ended := make(chan error, 1)
	go func() {
		_, err := first.CallTool(ctx, Call{Name: "form2", Arguments: strictjson.Checked(`{}`), Ask: func(ctx context.Context, q Question) (Answer, error) {
			if q.ID == "r1:name" {
				return says(ctx, q)
			}
			asked <- q
			return p.ask(ctx, q)
		}})
		ended <- err
	}()
	q := <-asked
	cancel()
	if e := As(<-ended); e.Kind != Interrupted || !e.MayHaveRun {
		t.Errorf("the first call: %v", e)
	}
	from, err := DecodeContinuation(q.State)
	if err != nil {
		t.Fatal(err)
	}
	call := Call{Name: "form2", Arguments: strictjson.Checked(`{}`), Resume: from, Answers: map[string]Answer{
		q.ID: {Action: Accept, Content: []byte(`{"name":"Byron"}`)},
	}}
	second := dialServer(t, newConnector(t, Config{}), webServer(url))
	raw, err := second.CallTool(t.Context(), call)
	if err != nil || !strings.Contains(string(raw), "Ada") || !strings.Contains(string(raw), "Byron") {
		t.Errorf("result = %s, %v", raw, err)
	}
	// An older revision cannot continue a call; it would start again.
	old := dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, mcptest.Web(mcptest.Good))))
	_, err = old.CallTool(t.Context(), call)
	if e := As(err); err == nil || e.MayHaveRun || e.Kind != Misconfigured {
		t.Errorf("older revision: %v", err)
	}
}

// The state comes back from a client, who must not answer for the pool: its folders do not get to the server, nor a model's answer if the server may ask
// none.
func TestRoundsWithForgedState(t *testing.T) {
	const folder, model = `{"roots":[{"uri":"file:///etc"}]}`, `{"role":"assistant","content":{"type":"text","text":"yes"},"model":"m"}`
	c := dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, mcptest.Web(mcptest.Modern)))).(*client)
	forged := func(tool, name, answer string) (string, error) {
		from, err := DecodeContinuation(`{"round":1,"server":"[]","answers":{"` + name + `":` + answer + `}}`)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := c.CallTool(t.Context(), Call{Name: tool, Arguments: strictjson.Checked(`{}`), Resume: from})
		return string(raw), err
	}
	for tool, refused := range map[string][2]string{"needroots": {"roots", folder}, "needmodel": {"m", model}, "form": {"name", `{"action":"accept"}`}} {
		if got, err := forged(tool, refused[0], refused[1]); err == nil || As(err).Kind != Misconfigured || As(err).MayHaveRun {
			t.Errorf("%s: %s, %v", tool, got, err)
		}
	}
	c.roots, c.sampling = []string{"file:///data"}, true
	both := strings.TrimSuffix(model, "}") + "," + strings.TrimPrefix(folder, "{")
	for _, answer := range []string{folder, both} {
		if got, err := forged("needroots", "roots", answer); err != nil || strings.Contains(got, "/etc") || !strings.Contains(got, "file:///data") {
			t.Errorf("the server got %s, %v", got, err)
		}
	}
	if got, err := forged("needmodel", "m", model); err != nil || !strings.Contains(got, "assistant") {
		t.Errorf("a model's answer: %s, %v", got, err)
	}
}

func dialAll(t *testing.T) map[string]Client {
	t.Helper()
	web := func(mode string) Client {
		return dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, mcptest.Web(mode))))
	}
	return map[string]Client{
		"stdio/2025": dial(t, mcptest.Good), "stdio/2026": dial(t, mcptest.Modern),
		"http/2025": web(mcptest.Good), "http/2026": web(mcptest.Modern),
	}
}

func TestTasks(t *testing.T) {
	for name, c := range dialAll(t) {
		t.Run(name, func(t *testing.T) {
			p := &person{answer: says}
			finished := make(chan struct{})
			call := Call{Name: "job", Arguments: strictjson.Checked(`{}`), Ask: p.ask, Task: true, TaskTTL: time.Hour, Notify: func(n Notification) {
				if n.Task != nil && n.Task.Status == "working" {
					close(finished)
				}
				p.notify(n)
			}}
			go func() {
				<-finished
				_, _ = c.CallTool(context.Background(), Call{Name: "finish", Arguments: strictjson.Checked(`{}`)})
			}()
			raw, err := c.CallTool(t.Context(), call)
			if err != nil || !strings.Contains(string(raw), "job done") {
				t.Errorf("result = %s, %v", raw, err)
			}
			if got := p.states(); !slices.Equal(got, []string{"working", "completed"}) {
				t.Errorf("told of %v", got)
			}
			task := p.tasks[0]
			if !strings.HasPrefix(task.ID, "job-") || task.TTL != time.Minute || task.Portable != strings.HasPrefix(name, "http") {
				t.Errorf("task = %+v", task)
			}

			_, err = p.call(t, c, "failingjob", `{}`)
			if e := As(err); err == nil || e.Kind != Answered || e.Code != -32603 || e.Message != "the job broke" {
				t.Errorf("failed task: %v", err)
			}
			got, err := p.call(t, c, "maybejob", `{}`)
			if err != nil || !strings.Contains(got, "maybejob done") {
				t.Errorf("optional task: %s, %v", got, err)
			}
		})
	}
}

func TestTaskNotWanted(t *testing.T) {
	raw, err := dial(t, mcptest.Good).CallTool(t.Context(), Call{Name: "maybejob", Arguments: strictjson.Checked(`{}`)})
	if err != nil || !strings.Contains(string(raw), "at once") {
		t.Errorf("result = %s, %v", raw, err)
	}
}

func TestTasksThatAsk(t *testing.T) {
	for name, c := range dialAll(t) {
		if name == "http/2025" {
			continue // the fake server has no stream to ask on
		}
		t.Run(name, func(t *testing.T) {
			p := &person{answer: says}
			got, err := p.call(t, c, "askingjob", `{}`)
			if err != nil || !strings.Contains(got, `Ada`) {
				t.Errorf("result = %s, %v", got, err)
			}
			if q := p.questions(); len(q) != 1 || q[0].Message != "Job name?" {
				t.Errorf("asked %+v", q)
			}
		})
	}
}

// A cancelled call cancels its MCP task.
func TestTaskCancelled(t *testing.T) {
	for name, c := range dialAll(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			var id string
			_, err := c.CallTool(ctx, Call{Name: "job", Arguments: strictjson.Checked(`{}`), Task: true, Notify: func(n Notification) {
				if n.Task != nil {
					id = n.Task.ID
					cancel(errors.New("enough"))
				}
			}})
			if e := As(err); e.Kind != Interrupted || !e.MayHaveRun || e.Message != "enough" {
				t.Errorf("error = %v", err)
			}
			conn := c.(*client)
			task, err := conn.getTask(t.Context(), &running{ctx: t.Context()}, id)
			if err != nil || task.Status != "cancelled" {
				t.Errorf("the task is %s, %v", task.Status, err)
			}
		})
	}
}

// A pool that stops does not cancel a task whose result can be fetched over another connection.
func TestTaskOutlivesItsConnection(t *testing.T) {
	for _, mode := range []string{mcptest.Good, mcptest.Modern} {
		t.Run(mode, func(t *testing.T) {
			s := webServer(serveWeb(t, mcptest.Web(mode)))
			first := dialServer(t, newConnector(t, Config{}), s)
			ctx, cancel := context.WithCancelCause(t.Context())
			var id string
			_, err := first.CallTool(ctx, Call{Name: "job", Arguments: strictjson.Checked(`{}`), Task: true, Notify: func(n Notification) {
				if n.Task != nil {
					id = n.Task.ID
					cancel(ErrStopping)
				}
			}})
			if !errors.Is(err, ErrStopping) {
				t.Errorf("error = %v", err)
			}
			second := dialServer(t, newConnector(t, Config{}), s)
			if _, err := callTool(t, second, "finish", `{}`); err != nil {
				t.Fatal(err)
			}
			raw, err := second.CallTool(t.Context(), Call{Name: "job", Follow: id})
			if err != nil || !strings.Contains(string(raw), "job done") {
				t.Errorf("result = %s, %v", raw, err)
			}
			_, err = second.CallTool(t.Context(), Call{Name: "job", Follow: "job-99"})
			if e := As(err); err == nil || e.Kind != Protocol || !e.MayHaveRun || e.Ended || !strings.Contains(e.Message, "Task not found") {
				t.Errorf("unknown task: %v", err)
			}
		})
	}
	_, err := dial(t, mcptest.Good).CallTool(t.Context(), Call{Name: "job", Follow: "job-1"})
	if err == nil || !strings.Contains(err.Error(), "another connection") {
		t.Errorf("a task of another process: %v", err)
	}
}

// If the server dies or forgets the task, its outcome is unknown.
func TestTaskLost(t *testing.T) {
	for how, want := range map[string]string{"lose": "Task not found", "crash": "ended"} {
		c := dialServer(t, newConnector(t, Config{}), &registry.Server{ID: "fake", Stdio: mcptest.Stdio(mcptest.Good)})
		begun := make(chan struct{}, 10)
		go func() {
			<-begun
			_, _ = c.CallTool(context.Background(), Call{Name: how, Arguments: strictjson.Checked(`{}`)})
		}()
		_, err := c.CallTool(t.Context(), Call{Name: "job", Arguments: strictjson.Checked(`{}`), Task: true, Notify: func(n Notification) {
			if n.Task != nil {
				begun <- struct{}{}
			}
		}})
		if e := As(err); err == nil || !e.MayHaveRun || e.Ended || e.Kind == Answered || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %v", how, err)
		}
	}
}
