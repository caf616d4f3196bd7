package runner

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	// progressEvery is how often a call's progress becomes an event, at most.
	progressEvery = 250 * time.Millisecond
	// moreWithin is how long more questions are waited for behind one: what a server asks together is shown together.
	moreWithin = 50 * time.Millisecond
	// mostQuestions is how many are shown together; the rest is asked when those are answered.
	mostQuestions = 100
	// longestTaskID is what AttachCall takes for the name of an MCP task.
	longestTaskID = 2000
)

// errAsked ends the following of a call that waits for people.
var errAsked = errors.New("the call waits for people")

// listener is told what a call says before its end.
type listener struct {
	call *call
	emit func(flow.Input)
	log  *slog.Logger
	// progressed is when the call's progress was last told.
	progressed time.Time
	// taskID is the MCP task that does the call, of toolID; empty where there is none.
	taskID, toolID string
	// asked collects what the call asks for.
	asked flow.Asked
	// answer gives the call an answer that it did not get yet; false where there is none for that question. nil: there is none at all.
	answer func(ctx context.Context, inputID string) bool
}

func (l *listener) progress(p *mcppoolv1.CallProgress) {
	if time.Since(l.progressed) < progressEvery {
		return
	}
	l.progressed = time.Now()
	l.emit(flow.Progress{Ordinal: l.call.ordinal, Attempt: l.call.attempt, Progress: &storagev1.ToolProgress{
		Progress: p.GetProgress(), Total: p.GetTotal(), Message: valid(p.GetMessage()),
	}})
}

func (l *listener) tasked(id string) {
	if id = valid(id); id == "" || len(id) > longestTaskID {
		l.log.Warn("the server's name for the MCP task that does the call cannot be used", "call_id", l.call.id, "bytes", len(id))
		return
	}
	l.taskID = id
	l.emit(flow.Tasked{Ordinal: l.call.ordinal, Attempt: l.call.attempt, TaskID: id})
}

// name lets a pool that does not know a call ask its server for it, where that does it as an MCP task (DESIGN 4).
func (l *listener) name(req *mcppoolv1.AttachCallRequest) {
	if l.taskID != "" {
		req.TaskId = l.taskID
		req.McpId, req.Name = flow.ToolName(l.toolID)
	}
}

// asks takes in a question; false where nobody is to be asked.
func (l *listener) asks(ctx context.Context, in *mcppoolv1.CallInputRequired) bool {
	if l.call.deaf.Load() || l.answer != nil && l.answer(ctx, in.GetInputId()) {
		return false
	}
	if slices.ContainsFunc(l.asked.Questions, func(q flow.Question) bool { return q.InputID == in.GetInputId() }) {
		return false // told twice
	}
	q := flow.Question{InputID: valid(in.GetInputId()), Message: valid(in.GetMessage()), SchemaJSON: valid(in.GetSchemaJson()), URL: valid(in.GetUrl())}
	if t := in.GetExpireTime(); t != nil {
		q.Expire = t.AsTime().UnixNano()
	}
	l.asked.Questions = append(l.asked.Questions, q)
	if state := in.GetRequestState(); state != "" {
		l.asked.RequestState = state
	}
	return true
}

// message is what the streams of CallTool and AttachCall carry.
type message interface {
	GetResult() *mcppoolv1.CallResult
	GetProgress() *mcppoolv1.CallProgress
	GetInputRequired() *mcppoolv1.CallInputRequired
	GetTask() *mcppoolv1.CallTask
}

// known says whether an error is how a call ended: whatever it asked for before does not matter any more.
func known(err error) bool {
	return errs.From(err).Metadata[errs.OutcomeKey] == errs.OutcomeKnown
}

// receive follows a call's stream to its end, or until it waits for people: then drop ends the stream, and the call lives on
// in the pool.
func receive[M message](ctx context.Context, drop func(), recv func() (M, error), l *listener) (*mcppoolv1.CallResult, error) {
	var more *time.Timer
	for {
		msg, err := recv()
		asked := len(l.asked.Questions) > 0
		switch {
		case err != nil && asked && !known(err):
			return nil, errAsked
		case errors.Is(err, io.EOF):
			return nil, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "the pool ended the call without a result; this is a defect of the pool, please report it")
		case err != nil:
			return nil, err
		case msg.GetResult() != nil:
			return msg.GetResult(), nil
		case msg.GetProgress() != nil:
			l.progress(msg.GetProgress())
		case msg.GetTask() != nil:
			l.tasked(msg.GetTask().GetTaskId())
		case msg.GetInputRequired() != nil && l.asks(ctx, msg.GetInputRequired()):
			if len(l.asked.Questions) == mostQuestions {
				return nil, errAsked
			}
			if more == nil {
				more = time.AfterFunc(moreWithin, drop)
				defer more.Stop()
			} else {
				more.Reset(moreWithin)
			}
		}
	}
}
