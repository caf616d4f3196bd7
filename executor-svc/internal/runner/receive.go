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
	// progressInterval is the shortest time between two progress events of a call.
	progressInterval = 250 * time.Millisecond
	// questionWindow is how long receive waits for further questions, so that people see questions together that the server asks together.
	questionWindow = 50 * time.Millisecond
	// maxQuestions bounds the questions that people see together; the pool sends the rest again once these are answered.
	maxQuestions = 100
	// maxTaskID bounds the bytes of an MCP task's id; AttachCall takes ids of as many characters.
	maxTaskID = 2000
)

// errElicited is returned by receive when a call waits for people.
var errElicited = errors.New("the call waits for people")

// follower handles the messages of a call before its result.
type follower struct {
	call *call
	emit func(flow.Input)
	log  *slog.Logger
	// progressed is the time of the last progress event.
	progressed time.Time
	// mcpTaskID names the MCP task of toolID that runs the call; empty if none does.
	mcpTaskID, toolID string
	// elicited collects the call's questions.
	elicited flow.Elicited
	// answer delivers an answer that is already known, and reports whether it did. May be nil.
	answer func(ctx context.Context, inputID string) bool
}

func (f *follower) progress(p *mcppoolv1.CallProgress) {
	if time.Since(f.progressed) < progressInterval {
		return
	}
	f.progressed = time.Now()
	f.emit(flow.Progress{Ordinal: f.call.ordinal, Attempt: f.call.attempt, Progress: &storagev1.ToolProgress{
		Progress: p.GetProgress(), Total: p.GetTotal(), Message: validUTF8(p.GetMessage()),
	}})
}

func (f *follower) mcpTask(id string) {
	if id = validUTF8(id); id == "" || len(id) > maxTaskID {
		f.log.Warn("the server's id of the MCP task that runs the call cannot be used", "call_id", f.call.id, "bytes", len(id))
		return
	}
	f.mcpTaskID = id
	f.emit(flow.McpTask{Ordinal: f.call.ordinal, Attempt: f.call.attempt, TaskID: id})
}

// addQuestion adds a question to elicited. It returns false if elicited already holds the question or no person has to answer it.
func (f *follower) addQuestion(ctx context.Context, in *mcppoolv1.CallInputRequired) bool {
	if f.call.stopping.Load() || f.answer != nil && f.answer(ctx, in.GetInputId()) {
		return false
	}
	if slices.ContainsFunc(f.elicited.Elicitations, func(q flow.Elicitation) bool { return q.InputID == in.GetInputId() }) {
		return false // the pool sent it twice
	}
	q := flow.Elicitation{InputID: validUTF8(in.GetInputId()), Message: validUTF8(in.GetMessage()), SchemaJSON: validUTF8(in.GetSchemaJson()), URL: validUTF8(in.GetUrl())}
	if t := in.GetExpireTime(); t != nil {
		q.Expire = t.AsTime().UnixNano()
	}
	f.elicited.Elicitations = append(f.elicited.Elicitations, q)
	if state := in.GetRequestState(); state != "" {
		f.elicited.RequestState = state
	}
	return true
}

// message is a message of the streams of CallTools and AttachCall.
type message interface {
	GetResult() *mcppoolv1.CallResult
	GetProgress() *mcppoolv1.CallProgress
	GetInputRequired() *mcppoolv1.CallInputRequired
	GetTask() *mcppoolv1.CallTask
}

// receive follows a call's stream to its end and returns the result. If the call waits for people, receive returns errElicited, and the call
// continues in the pool. drop ends the stream.
func receive[M message](ctx context.Context, drop func(), recv func() (M, error), f *follower) (*mcppoolv1.CallResult, error) {
	var window *time.Timer
	for {
		msg, err := recv()
		switch {
		case err != nil && len(f.elicited.Elicitations) > 0 && errs.From(err).Metadata[errs.OutcomeKey] != errs.OutcomeKnown:
			return nil, errElicited
		case errors.Is(err, io.EOF):
			return nil, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "the pool ended the call without a result; this is a defect of the pool, please report it")
		case err != nil:
			return nil, err
		case msg.GetResult() != nil:
			return msg.GetResult(), nil
		case msg.GetProgress() != nil:
			f.progress(msg.GetProgress())
		case msg.GetTask() != nil:
			f.mcpTask(msg.GetTask().GetTaskId())
		case msg.GetInputRequired() != nil && f.addQuestion(ctx, msg.GetInputRequired()):
			if len(f.elicited.Elicitations) == maxQuestions {
				return nil, errElicited
			}
			if window == nil {
				window = time.AfterFunc(questionWindow, drop)
				defer window.Stop()
			} else {
				window.Reset(questionWindow)
			}
		}
	}
}
