package runner

import (
	"context"
	"errors"
	"io"
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

func (c *call) progress(p *mcppoolv1.CallProgress) {
	if time.Since(c.progressed) < progressInterval {
		return
	}
	c.progressed = time.Now()
	c.emit(flow.Progress{Ordinal: c.ordinal, Attempt: c.attempt, Progress: &storagev1.ToolProgress{
		Progress: p.GetProgress(), Total: p.GetTotal(), Message: validUTF8(p.GetMessage()),
	}})
}

func (c *call) mcpTask(id string) {
	if id = validUTF8(id); id == "" || len(id) > maxTaskID {
		c.log.Warn("the server's id of the MCP task that runs the call cannot be used", "call_id", c.id, "bytes", len(id))
		return
	}
	c.mcpTaskID = id
	c.emit(flow.McpTask{Ordinal: c.ordinal, Attempt: c.attempt, TaskID: id})
}

// addQuestion adds a question to elicited. It returns false if elicited already holds the question or no person has to answer it.
func (c *call) addQuestion(ctx context.Context, in *mcppoolv1.CallInputRequired) bool {
	if c.stopping.Load() || c.answer != nil && c.answer(ctx, in.GetInputId()) {
		return false
	}
	if slices.ContainsFunc(c.elicited.Elicitations, func(q flow.Elicitation) bool { return q.InputID == in.GetInputId() }) {
		return false // the pool sent it twice
	}
	q := flow.Elicitation{InputID: validUTF8(in.GetInputId()), Message: validUTF8(in.GetMessage()), SchemaJSON: validUTF8(in.GetSchemaJson()), URL: validUTF8(in.GetUrl())}
	if t := in.GetExpireTime(); t != nil {
		q.Expire = t.AsTime().UnixNano()
	}
	c.elicited.Elicitations = append(c.elicited.Elicitations, q)
	if state := in.GetRequestState(); state != "" {
		c.elicited.RequestState = state
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
func receive[M message](ctx context.Context, drop func(), recv func() (M, error), c *call) (*mcppoolv1.CallResult, error) {
	var window *time.Timer
	for {
		msg, err := recv()
		switch {
		case err != nil && len(c.elicited.Elicitations) > 0 && errs.From(err).Metadata[errs.OutcomeKey] != errs.OutcomeKnown:
			return nil, errElicited
		case errors.Is(err, io.EOF):
			return nil, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "the pool ended the call without a result; this is a defect of the pool, please report it")
		case err != nil:
			return nil, err
		case msg.GetResult() != nil:
			return msg.GetResult(), nil
		case msg.GetProgress() != nil:
			c.progress(msg.GetProgress())
		case msg.GetTask() != nil:
			c.mcpTask(msg.GetTask().GetTaskId())
		case msg.GetInputRequired() != nil && c.addQuestion(ctx, msg.GetInputRequired()):
			if len(c.elicited.Elicitations) == maxQuestions {
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
