package rig

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// maxEvent bounds one line of an event stream.
const maxEvent = 16 << 20

// REST is a client over the gateway. Like any HTTP client, it knows paths and JSON, but no generated stubs.
type REST struct {
	// Base is the gateway's address, such as http://127.0.0.1:7410.
	Base string
	// Key is an API key; empty if none is needed.
	Key string
	// Web is the HTTP client; nil: http.DefaultClient.
	Web *http.Client
}

// Create implements Client.
func (c REST) Create(ctx context.Context, req *executorv1.CreateTaskRequest) (*executorv1.Task, error) {
	t := &executorv1.Task{}
	return t, c.do(ctx, http.MethodPost, "/v1/tasks", req, t)
}

// Resume implements Client.
func (c REST) Resume(ctx context.Context, req *executorv1.ResumeTaskRequest) (*executorv1.Task, error) {
	t := &executorv1.Task{}
	body := proto.Clone(req).(*executorv1.ResumeTaskRequest)
	body.Id = ""
	return t, c.do(ctx, http.MethodPost, "/v1/tasks/"+req.GetId()+":resume", body, t)
}

// Cancel implements Client.
func (c REST) Cancel(ctx context.Context, req *executorv1.CancelTaskRequest) (*executorv1.Task, error) {
	t := &executorv1.Task{}
	return t, c.do(ctx, http.MethodPost, "/v1/tasks/"+req.GetId()+":cancel", &executorv1.CancelTaskRequest{Reason: req.GetReason(), SubtaskId: req.GetSubtaskId()}, t)
}

// Pause implements Client.
func (c REST) Pause(ctx context.Context, req *executorv1.PauseTaskRequest) (*executorv1.Task, error) {
	t := &executorv1.Task{}
	return t, c.do(ctx, http.MethodPost, "/v1/tasks/"+req.GetId()+":pause", &executorv1.PauseTaskRequest{Reason: req.GetReason()}, t)
}

// Fork implements Client.
func (c REST) Fork(ctx context.Context, req *executorv1.ForkTaskRequest) (*executorv1.Task, error) {
	t := &executorv1.Task{}
	body := proto.Clone(req).(*executorv1.ForkTaskRequest)
	body.Id = ""
	return t, c.do(ctx, http.MethodPost, "/v1/tasks/"+req.GetId()+":fork", body, t)
}

// Delete implements Client.
func (c REST) Delete(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, "/v1/tasks/"+id, nil, &executorv1.DeleteTaskResponse{})
}

// Export implements Client. It checks that the response is a JSON file.
func (c REST) Export(ctx context.Context, id string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+"/v1/tasks/"+id+":export", nil)
	if err != nil {
		return nil, err
	}
	res, err := c.send(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	_, params, err := mime.ParseMediaType(res.Header.Get("Content-Disposition"))
	if kind := res.Header.Get("Content-Type"); err != nil || kind != "application/json" || params["filename"] != "pawl-task-"+id+".json" {
		return nil, fmt.Errorf("the document comes as %q, %q", kind, res.Header.Get("Content-Disposition"))
	}
	return io.ReadAll(res.Body)
}

// CreateAgent implements Client.
func (c REST) CreateAgent(ctx context.Context, req *executorv1.CreateAgentRequest) (*executorv1.Agent, error) {
	a := &executorv1.Agent{}
	return a, c.do(ctx, http.MethodPost, "/v1/agents?agentId="+url.QueryEscape(req.GetAgentId()), req.GetAgent(), a)
}

// Get implements Client.
func (c REST) Get(ctx context.Context, id string) (*executorv1.Task, error) {
	t := &executorv1.Task{}
	return t, c.do(ctx, http.MethodGet, "/v1/tasks/"+id, nil, t)
}

// Steps implements Client.
func (c REST) Steps(ctx context.Context, id string) ([]*executorv1.Step, error) {
	res := &executorv1.ListStepsResponse{}
	err := c.do(ctx, http.MethodGet, "/v1/tasks/"+id+"/steps", nil, res)
	return res.GetSteps(), err
}

// Result implements Client.
func (c REST) Result(ctx context.Context, id string) (*executorv1.TaskResult, error) {
	res := &executorv1.TaskResult{}
	return res, c.do(ctx, http.MethodGet, "/v1/tasks/"+id+"/result", nil, res)
}

// Watch implements Client, over Server-Sent Events.
func (c REST) Watch(ctx context.Context, id string, after uint64, each func(*executorv1.ExecutorEvent) bool) error {
	return c.Events(ctx, id, after, func(e Event) bool {
		if e.Name == "end" {
			return false
		}
		return each(e.Task)
	})
}

// Event is one Server-Sent Event.
type Event struct {
	ID, Name, Data string
	// Task is the data read as an ExecutorEvent; nil for `end`.
	Task *executorv1.ExecutorEvent
}

// Events reads a task's stream until each returns false. The last event of a stream is `end`; a stream that ends earlier is an error. Without events
// after `after`, the response for a task that has ended is 204, and Events returns nil.
func (c REST) Events(ctx context.Context, id string, after uint64, each func(Event) bool) (err error) {
	watched := c.watch(ctx, "/v1/tasks/"+id+"/events", after, func(e Event) bool {
		if e.Name != "end" {
			e.Task = &executorv1.ExecutorEvent{}
			if err = protojson.Unmarshal([]byte(e.Data), e.Task); err != nil {
				err = fmt.Errorf("event %s: %w", e.ID, err)
				return false
			}
		}
		return each(e)
	})
	return cmp.Or(err, watched)
}

// watch reads the events of a path after a seq until each returns false.
func (c REST) watch(ctx context.Context, path string, after uint64, each func(Event) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if after > 0 {
		req.Header.Set("Last-Event-ID", fmt.Sprint(after))
	}
	res, err := c.send(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusNoContent {
		return nil
	}
	return readEvents(res.Body, each)
}

func readEvents(r io.Reader, each func(Event) bool) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	var e Event
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "" && e.Data != "":
			if e.Name == "error" { // the stream was cut off
				return problem(0, strings.NewReader(e.Data))
			}
			if !each(e) {
				return nil
			}
			e = Event{}
		case field == "id":
			e.ID = value
		case field == "event":
			e.Name = value
		case field == "data":
			e.Data += value
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

func (c REST) do(ctx context.Context, method, path string, body, out proto.Message) error {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = protojson.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.send(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(all, out)
}

// send sends a request. It returns a *Refused for a response with problem details.
func (c REST) send(req *http.Request) (*http.Response, error) {
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	res, err := cmp.Or(c.Web, http.DefaultClient).Do(req)
	if err != nil || res.StatusCode < 300 {
		return res, err
	}
	defer func() { _ = res.Body.Close() }()
	err = problem(res.StatusCode, res.Body)
	var refusal *Refused
	if after := res.Header.Get("Retry-After"); after != "" && errors.As(err, &refusal) {
		seconds, err := strconv.Atoi(after)
		if err != nil {
			return nil, fmt.Errorf("%s answered %s with Retry-After %q: %w", req.URL.Path, res.Status, after, err)
		}
		refusal.RetryAfter = time.Duration(seconds) * time.Second
	}
	return nil, err
}

// problem reads problem details.
func problem(status int, body io.Reader) error {
	var p struct{ Reason, Detail string }
	if err := json.NewDecoder(body).Decode(&p); err != nil {
		return fmt.Errorf("an error with status %d without problem details: %w", status, err)
	}
	return &Refused{Reason: p.Reason, HTTP: status, Message: p.Detail}
}
