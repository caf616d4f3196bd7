package openai

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/serve"

	"pawl.dev/gateway/internal/rest"
	"pawl.dev/gateway/internal/stream"
)

// createResponse serves POST /responses.
func (h *Handler) createResponse(w http.ResponseWriter, r *http.Request) {
	h.receive(w, r, asking(failResponse), func(r received) error {
		q, err := readResponse(r.body, r.Header)
		if err != nil {
			return err
		}
		if q.Background || strings.HasPrefix(q.Model, agentPrefix) {
			dontRepeat(w, r.Request)
		}
		out, c, err := h.respond(r.Request, q)
		if err != nil {
			return err
		}
		r.held.Shrink(serve.CallBytes(true, int64(proto.Size(c.In))))
		return h.send(w, r.Request, out, c, q.Stream)
	})
}

// send makes the call and answers with its response, streamed or whole.
func (h *Handler) send(w http.ResponseWriter, r *http.Request, out *responder, c stream.Call, streamed bool) error {
	c.Fail, c.Done = failResponse, func() bool { return out.ended }
	if streamed {
		out.streamed, c.Framing = true, out
		h.streams.Serve(w, r, c)
		return nil
	}
	err := out.whole(r.Context(), c)
	if err == nil {
		write(w, http.StatusOK, out.response)
	}
	return err
}

// whole makes the call and completes the response, as far as the call tells.
func (r *responder) whole(ctx context.Context, c stream.Call) error {
	err := c.Each(ctx, func(m proto.Message) error { r.read(m); return nil })
	if err != nil {
		return err
	}
	r.begin()
	switch {
	case r.ended:
	case r.Status == statusCancelled:
		r.finish(statusCancelled)
	default:
		r.closeText(statusInProgress)
	}
	return nil
}

// respond returns the call that answers a request, and what makes its response.
func (h *Handler) respond(r *http.Request, q *responseRequest) (*responder, stream.Call, error) {
	out := &responder{response: q.response()}
	out.CreatedAt = time.Now().Unix()
	if q.Input[len(q.Input)-1].Type == "mcp_approval_response" {
		return h.resume(r, q, out)
	}
	before, err := h.before(r.Context(), q)
	if err != nil {
		return nil, stream.Call{}, err
	}
	if !q.Background && !strings.HasPrefix(q.Model, agentPrefix) {
		in, err := q.completion(before)
		if err != nil {
			return nil, stream.Call{}, err
		}
		out.Store = false
		out.ID = idPrefix + "m" + strings.ReplaceAll(uuid.NewString(), "-", "")
		single := q.ParallelToolCalls != nil && !*q.ParallelToolCalls
		c := newCall(h.conns.Executor, completions, "StreamComplete", &pipelinev1.StreamCompleteRequest{Completion: in}, &completionSource{single: single})
		out.source = c.source
		return out, c.Call, nil
	}
	run, err := q.newTask(before, r.Header)
	if err != nil {
		return nil, stream.Call{}, err
	}
	if q.Background && !q.Stream { // the task runs by itself
		t, err := executorv1.NewExecutorServiceClient(h.conns.Executor).CreateTask(r.Context(), run.GetTask())
		if err != nil {
			return nil, stream.Call{}, err
		}
		return out, h.follow(r, out, t, responseID{background: true}, false), nil
	}
	run.Follow = q.Background
	out.task = &responseID{background: q.Background}
	c := newCall(h.conns.Executor, tasks, "RunTask", run, &taskSource{base: baseURL(r)})
	out.source = c.source
	return out, c.Call, nil
}

// follow returns the call that reads the part of a task's events that is a response.
func (h *Handler) follow(r *http.Request, out *responder, t *executorv1.Task, id responseID, follow bool) stream.Call {
	id.task = t.GetId()
	out.task, out.Background = &id, id.background
	switch {
	case t.GetCancelRequested():
		out.Status = statusCancelled
	case t.GetQueued() || t.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT:
		out.Status = statusQueued
	}
	watch := &executorv1.WatchTaskRequest{Id: id.task, AfterSeq: id.after, NoFollow: !follow}
	c := newCall(h.conns.Executor, tasks, "WatchTask", watch, &taskSource{base: baseURL(r)})
	out.source = c.source
	return c.Call
}

// before returns the messages of the conversation that a response ended.
func (h *Handler) before(ctx context.Context, q *responseRequest) ([]chatMessage, error) {
	previous := q.PreviousResponseID
	if previous == "" {
		return nil, nil
	}
	t, _, err := h.taskOf(ctx, previous)
	switch {
	case err != nil:
		return nil, err
	case t.GetEndTime() != nil:
	case t.GetCancelRequested():
		return nil, invalid("previous_response_id", "the response %s is cancelled, but a call of its task still runs; send the request again when it has ended", previous)
	case slices.ContainsFunc(q.Input, func(item inputItem) bool { return item.Type == "mcp_approval_response" }):
		return nil, invalid("input", "`input` answers a request for an approval and has other items after the answer; send the answer as the last item, and a message once the task has ended")
	default:
		return nil, invalid("previous_response_id", "the response %s is not complete: its task runs or waits; answer its requests for approvals, or cancel it", previous)
	}
	answer := t.GetFullAnswer()
	if answer == "" {
		answer = "(no answer: " + cmp.Or(t.GetError().GetErrMsg(), "the task was cancelled") + ")"
	}
	return []chatMessage{textMessage("user", t.GetGoal()), textMessage("assistant", answer)}, nil
}

// taskOf returns the task that answers a response. The events of a response are all of the task's, or those from an answer to a wait on.
func (h *Handler) taskOf(ctx context.Context, id string) (*executorv1.Task, responseID, error) {
	ref, ok := parseResponseID(id)
	if !ok {
		return nil, ref, noResponse(id)
	}
	t, err := executorv1.NewExecutorServiceClient(h.conns.Executor).GetTask(ctx, &executorv1.GetTaskRequest{Id: ref.task})
	switch {
	case errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND || err == nil && ref.after > t.GetLastSeq():
		return nil, ref, noResponse(id)
	case err != nil || ref.after == 0:
		return t, ref, err
	}
	first, err := h.firstEvent(ctx, &executorv1.WatchTaskRequest{Id: ref.task, AfterSeq: ref.after, NoFollow: true}, func(*executorv1.ExecutorEvent) bool { return true })
	if isYetToCome := first == nil && t.GetEndTime() == nil; err == nil && !isYetToCome && !isAnswer(first) {
		err = noResponse(id)
	}
	return t, ref, err
}

// noResponse returns the error for a response that does not exist, or not for the caller.
func noResponse(id string) error {
	if strings.HasPrefix(id, idPrefix+"m") {
		return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND,
			"the response %.100q is not stored; only responses of agents and in the background are: send the whole conversation in `input`", id)
	}
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND, "there is no response %.100q", id)
}

// resume answers a task's requests for approvals. The response has what the task does then; the same answer may be sent again.
func (h *Handler) resume(r *http.Request, q *responseRequest, out *responder) (*responder, stream.Call, error) {
	answers, latest, err := q.answers()
	if err != nil {
		return nil, stream.Call{}, err
	}
	client := executorv1.NewExecutorServiceClient(h.conns.Executor)
	t, err := client.GetTask(r.Context(), &executorv1.GetTaskRequest{Id: answers[0].GetId()})
	if err != nil {
		return nil, stream.Call{}, err
	}
	for _, answer := range answers {
		if _, err := client.ResumeTask(r.Context(), answer); err != nil {
			return nil, stream.Call{}, err
		}
		out.answered = append(out.answered, answer.GetWaitId())
	}
	follow := q.Stream || !q.Background
	after, err := h.beforeAnswers(r.Context(), t, out.answered, out.answered[latest:], follow)
	if err != nil {
		return nil, stream.Call{}, err
	}
	out.Model = modelOf(t)
	return out, h.follow(r, out, t, responseID{after: after, background: q.Background}, follow), nil
}

// beforeAnswers returns the seq of the event before the first answer to the waits that were open in t. If none was, the request repeats the latest
// answers, and the seq is that before the first of them.
func (h *Handler) beforeAnswers(ctx context.Context, t *executorv1.Task, waits, latest []string, follow bool) (uint64, error) {
	isClosed := func(wait string) bool {
		return !slices.ContainsFunc(t.GetWaits(), func(w *executorv1.Wait) bool { return w.GetId() == wait })
	}
	watch := &executorv1.WatchTaskRequest{Id: t.GetId(), AfterSeq: t.GetLastSeq(), NoFollow: !follow}
	if waits = slices.DeleteFunc(slices.Clone(waits), isClosed); len(waits) == 0 {
		waits, watch.AfterSeq = latest, 0
	}
	first, err := h.firstEvent(ctx, watch, func(e *executorv1.ExecutorEvent) bool { return isAnswer(e) && slices.Contains(waits, e.GetWaitId()) })
	if first == nil { // the answer has not taken effect yet
		return t.GetLastSeq(), err
	}
	return first.GetSeq() - 1, nil
}

// firstEvent returns the first event of a watch that fits, or nil if none does.
func (h *Handler) firstEvent(ctx context.Context, watch *executorv1.WatchTaskRequest, fits func(*executorv1.ExecutorEvent) bool) (first *executorv1.ExecutorEvent, err error) {
	c := newCall(h.conns.Executor, tasks, "WatchTask", watch, nil)
	c.Done = func() bool { return first != nil }
	err = c.Each(ctx, func(m proto.Message) error {
		if e, ok := m.(*executorv1.ExecutorEvent); ok && fits(e) {
			first = e
		}
		return nil
	})
	return first, err
}

// modelOf returns the name of a task's model.
func modelOf(t *executorv1.Task) string {
	if t.GetAgentId() != "" {
		return agentPrefix + t.GetAgentId()
	}
	return t.GetModel()
}

// stored receives a request about a response that a task answers.
func (h *Handler) stored(w http.ResponseWriter, r *http.Request, serveTask func(r *http.Request, t *executorv1.Task, ref responseID) error) {
	h.receive(w, r, rest.Incoming{MaxBody: 64 << 10, Streams: true, Fail: failResponse}, func(r received) error {
		t, ref, err := h.taskOf(r.Context(), strings.Split(strings.TrimPrefix(r.URL.Path, Base+"/responses/"), "/")[0])
		if err == nil {
			err = serveTask(r.Request, t, ref)
		}
		return err
	})
}

// getResponse serves GET /responses/{id}.
func (h *Handler) getResponse(w http.ResponseWriter, r *http.Request) {
	h.stored(w, r, func(r *http.Request, t *executorv1.Task, ref responseID) error {
		query := r.URL.Query()
		streamed, first := query.Get("stream") == "true", 0
		if after := query.Get("starting_after"); after != "" {
			n, err := strconv.Atoi(after)
			if err != nil || n < 0 || !streamed {
				return invalid("starting_after", "`starting_after` has to be the `sequence_number` of an event, with `stream=true`")
			}
			first = n + 1
		}
		return h.answerTask(w, r, t, ref, streamed, first)
	})
}

// answerTask answers with the response of a task.
func (h *Handler) answerTask(w http.ResponseWriter, r *http.Request, t *executorv1.Task, ref responseID, streamed bool, first int) error {
	out := &responder{response: newResponse(), first: first}
	out.Model, out.CreatedAt = modelOf(t), t.GetCreateTime().GetSeconds()
	return h.send(w, r, out, h.follow(r, out, t, ref, streamed), streamed)
}

// cancelResponse serves POST /responses/{id}/cancel.
func (h *Handler) cancelResponse(w http.ResponseWriter, r *http.Request) {
	h.stored(w, r, func(r *http.Request, t *executorv1.Task, ref responseID) error {
		t, err := executorv1.NewExecutorServiceClient(h.conns.Executor).CancelTask(r.Context(), &executorv1.CancelTaskRequest{Id: t.GetId()})
		if err != nil {
			return err
		}
		return h.answerTask(w, r, t, ref, false, 0)
	})
}

// deleteResponse serves DELETE /responses/{id}.
func (h *Handler) deleteResponse(w http.ResponseWriter, r *http.Request) {
	h.stored(w, r, func(r *http.Request, t *executorv1.Task, ref responseID) error {
		if _, err := executorv1.NewExecutorServiceClient(h.conns.Executor).DeleteTask(r.Context(), &executorv1.DeleteTaskRequest{Id: t.GetId()}); err != nil {
			return err
		}
		write(w, http.StatusOK, struct {
			ID      string `json:"id"`
			Object  string `json:"object"`
			Deleted bool   `json:"deleted"`
		}{ref.String(), "response", true})
		return nil
	})
}

// inputOf serves GET /responses/{id}/input_items.
func (h *Handler) inputOf(w http.ResponseWriter, r *http.Request) {
	h.stored(w, r, func(_ *http.Request, t *executorv1.Task, ref responseID) error {
		id := "msg_" + strings.TrimPrefix(ref.String(), idPrefix) + "_input"
		goal := messageItem{Type: "message", ID: id, Status: statusCompleted, Role: "user", Content: []textPart{{Type: "input_text", Text: t.GetGoal()}}}
		write(w, http.StatusOK, struct {
			Object  string        `json:"object"`
			Data    []messageItem `json:"data"`
			FirstID string        `json:"first_id"`
			LastID  string        `json:"last_id"`
			HasMore bool          `json:"has_more"`
		}{"list", []messageItem{goal}, id, id, false})
		return nil
	})
}
