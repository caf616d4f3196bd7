package mcpserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

const (
	// approvalInput is the pool's input_id of the question whether a call may be made.
	approvalInput = "pawl.dev/approval"
	// afterwards bounds requests to the pool that are made after a call: acknowledgements and cancellations.
	afterwards = 10 * time.Second
	// drainTime is how long running calls may go on when the gateway stops. It is shorter than the time after which requests are cut off.
	drainTime = 8 * time.Second
)

// call is a tools/call.
type call struct {
	*request
	req      *mcppoolv1.CallToolRequest
	hash     string // of the request, as in AttachCallRequest
	progress string // the client's progress token, as JSON; empty: none
	level    int    // of the least severe log message that the client gets; -1: none
	unasked  bool   // the client cannot ask for the approval that the call needs
	asking   bool   // the client's user has an open question
}

// callTool calls a tool, or continues a call that asked its client for input.
func (q *request) callTool() error {
	switch name := q.params.text("name"); {
	case q.search && name == "search_tools":
		return ownTool((*request).searchTools)(q)
	case q.search && name == "call_tool":
		if err := q.unwrapCall(); err != nil {
			return err
		}
	}
	called := q.params.text("name")
	if !q.modern && q.params.has("task") && (q.server != "" || called != "run_task") {
		return errorf(methodNotFound, "the tool %.100q does not run as a task; leave params.task out", called)
	}
	if own := ownTools[called]; own != nil && q.server == "" {
		return own(q)
	}
	return q.callServer()
}

// callServer calls a tool of a server.
func (q *request) callServer() error {
	server, name, err := q.resolve(q.params.text("name"))
	if err != nil {
		return err
	}
	arguments := "{}"
	if q.params.has("arguments") {
		arguments = strictjson.Compact(string(q.params["arguments"]))
	}
	if strictjson.Kind(arguments) != "object" {
		return errorf(invalidParams, "params.arguments is not an object")
	}
	hash := sha256.Sum256([]byte(server + "\x00" + name + "\x00" + arguments))
	c := &call{request: q, hash: hex.EncodeToString(hash[:]), progress: string(q.meta["progressToken"]), level: q.level()}
	// As in tasks by default, calls with a risk above LOW need an approval: the client is a program, and often a model chose the call.
	c.req = &mcppoolv1.CallToolRequest{
		McpId: server, Name: name, InputJson: arguments, CallId: q.callID(q.id), Exact: true, AskAbove: commonv1.RiskLevel_RISK_LEVEL_LOW,
	}
	q.params = nil // the body can be freed
	if q.modern && q.state != "" {
		return c.resume()
	}
	return c.follow(func(ctx context.Context) (func() (callEvent, error), error) {
		stream, err := q.pool.CallTool(ctx, c.req)
		return func() (callEvent, error) { return stream.Recv() }, err
	})
}

// callID returns the call id of a request: one that notifications/cancelled can find if there is a session, else a random one.
func (q *request) callID(id []byte) string {
	if q.client.Nonce == "" {
		return "mcp-" + rand.Text()
	}
	sum := sha256.Sum256(id)
	return "mcp-" + q.client.Nonce + "-" + hex.EncodeToString(sum[:12])
}

// level returns the severity of the least severe log message that the client gets, or -1.
func (q *request) level() int {
	switch {
	case q.modern:
		return severity(q.meta.text("io.modelcontextprotocol/logLevel"))
	case q.client.Nonce == "":
		return 0
	}
	return max(0, severity(q.levels.get(q.client.Nonce)))
}

// resume answers the question of a running call and follows it again.
func (c *call) resume() error {
	var asked question
	if !c.signer.open(stateToken, c.state, &asked) || asked.User != c.User || asked.Hash != c.hash {
		return errorf(invalidParams, "params.requestState is none of this call; make the call again without it")
	}
	c.req.CallId = asked.Call
	if answer := c.inputs.object(asked.name()); answer != nil {
		if err := c.answer(asked, answer); err != nil {
			e := errorOf(err)
			e.Code = invalidParams
			return e
		}
	}
	return c.follow(func(ctx context.Context) (func() (callEvent, error), error) {
		stream, err := c.pool.AttachCall(ctx, &mcppoolv1.AttachCallRequest{CallId: asked.Call, RequestHash: c.hash})
		return func() (callEvent, error) { return stream.Recv() }, err
	})
}

// answer passes the client's answer to a question to the pool.
func (q *request) answer(asked question, answer fields) error {
	actions := map[string]mcppoolv1.CallAnswer_Action{
		"accept": mcppoolv1.CallAnswer_ACTION_ACCEPT, "decline": mcppoolv1.CallAnswer_ACTION_DECLINE, "cancel": mcppoolv1.CallAnswer_ACTION_CANCEL,
	}
	action, ok := actions[answer.text("action")]
	if !ok {
		return errorf(invalidParams, "the action of the answer is none of accept, decline, cancel")
	}
	a := &mcppoolv1.CallAnswer{InputId: asked.Input, Action: action}
	if action == mcppoolv1.CallAnswer_ACTION_ACCEPT {
		if a.ContentJson = string(answer["content"]); asked.Input == approvalInput {
			a.ContentJson = "{}" // the form has no fields
		}
	}
	_, err := q.pool.AnswerCall(q.Context(), &mcppoolv1.AnswerCallRequest{CallId: asked.Call, Answer: a})
	return err
}

// takeAnswer takes the client's response to a request of the server, in revisions with sessions.
func (q *request) takeAnswer() error {
	var asked question
	if q.modern || !q.signer.open(questionToken, strictjson.UnquoteString(q.id), &asked) || asked.User != q.User {
		return errorf(invalidRequest, "the response answers no request of this server").with(http.StatusBadRequest)
	}
	answer := fields{"result": q.result}.object("result")
	if answer == nil { // an error: the user was not asked
		answer = fields{"action": []byte(`"cancel"`)}
	}
	take := q.answer
	if asked.Task != "" {
		take = q.answerTask
	}
	if err := take(asked, answer); err != nil {
		if asked.Task == "" { // an answer that does not fit is none, and the call must not wait for another
			_ = q.answer(asked, fields{"action": []byte(`"cancel"`)}) // the question may be closed
		}
		return errorOf(err).with(http.StatusBadRequest)
	}
	return nil
}

// cancel cancels the call of a request in the same session.
func (q *request) cancel() {
	if id := q.params["requestId"]; q.client.Nonce != "" && id != nil {
		if c, ok := q.calls.Load(q.callID(id)); ok {
			c.(*taskCall).cancelled(q.Context(), q.params.text("reason"))
			return
		}
		_, _ = q.pool.CancelCall(q.Context(), &mcppoolv1.CancelCallRequest{CallId: q.callID(id), Reason: q.params.text("reason")}) // it may have ended
	}
}

// callEvent is an event of CallTool or AttachCall.
type callEvent interface {
	GetProgress() *mcppoolv1.CallProgress
	GetLog() *mcppoolv1.CallLog
	GetResult() *mcppoolv1.CallResult
	GetInputRequired() *mcppoolv1.CallInputRequired
}

type received[E any] struct {
	event E
	err   error
}

// events is a stream of a service that a request follows.
type events[E any] struct {
	open   func(context.Context) (recv func() (E, error), err error)
	handle func(E, error) (done bool, err error) // sends an event to the client; done: the request is answered
	leave  func()                                // the client is gone, or the gateway stops
	drains func() bool                           // reports whether the request goes on while the gateway stops; nil: it does not
}

// follow handles the events until the request is answered. extra ends it too: a function from it answers the request.
func (s events[E]) follow(q *request, extra <-chan func() error) error {
	ctx, cancel := context.WithCancel(q.Context())
	recv, err := s.open(ctx)
	if err != nil {
		cancel()
		return err
	}
	received := make(chan received[E])
	go receive(ctx, recv, received)
	defer func() { // the receiver ends before the handler does
		cancel()
		for range received {
		}
	}()
	beat := time.NewTicker(q.cfg.Heartbeat)
	defer beat.Stop()
	stopping, drained := q.cfg.Stopping, (<-chan time.Time)(nil)
	for {
		select {
		case got, ok := <-received:
			if !ok {
				s.leave()
				return nil
			}
			if done, err := s.handle(got.event, got.err); done || err != nil {
				return err
			}
		case answer := <-extra:
			return answer()
		case <-beat.C:
			q.out.beat()
		case <-ctx.Done():
			s.leave()
			return nil
		case <-stopping:
			if s.drains == nil || !s.drains() {
				s.leave()
				return gatewayStops()
			}
			stopping, drained = nil, time.After(drainTime)
		case <-drained:
			return gatewayStops()
		}
		if q.out.err != nil {
			s.leave()
			return nil
		}
	}
}

func gatewayStops() error {
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "the gateway is stopping; try again in a moment")
}

// receive passes events on until the stream has ended or ctx is done.
func receive[E any](ctx context.Context, recv func() (E, error), to chan<- received[E]) {
	defer close(to)
	for {
		event, err := recv()
		select {
		case to <- received[E]{event, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// follow sends the events of a call to the client, and answers when the call ends or needs input.
func (c *call) follow(open func(context.Context) (recv func() (callEvent, error), err error)) error {
	begun := false
	start := func(ctx context.Context) (recv func() (callEvent, error), err error) {
		recv, err = open(ctx)
		begun = err == nil
		return recv, err
	}
	err := events[callEvent]{start, c.handle, c.leave, func() bool { return !c.asking }}.follow(c.request, nil)
	if _, own := err.(*rpcError); err == nil || own || !begun || c.asking { //nolint:errorlint // they are never wrapped
		return err
	}
	return c.fail(err)
}

// leave cancels the call of a client that is gone. In revisions with sessions, a lost connection does not cancel a call.
func (c *call) leave() {
	if c.modern {
		c.afterwards(func(ctx context.Context) {
			_, _ = c.pool.CancelCall(ctx, &mcppoolv1.CancelCallRequest{CallId: c.req.GetCallId(), Reason: "the client is gone"}) // it may have ended
		})
	}
}

// afterwards makes a request that the client does not wait for.
func (q *request) afterwards(do func(context.Context)) {
	q.acks.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(q.Context()), afterwards)
		defer cancel()
		do(ctx)
	})
}

// handle sends an event to the client, and reports whether the request is answered.
func (c *call) handle(e callEvent, err error) (done bool, _ error) {
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "the call ended without a result")
		}
		return true, c.fail(err)
	}
	c.asking = false
	switch {
	case e.GetResult() != nil:
		return true, c.finish(e.GetResult())
	case e.GetInputRequired() != nil:
		return c.ask(e.GetInputRequired())
	case e.GetProgress() != nil && c.progress != "":
		c.out.send(notification("", "notifications/progress", c.progressParams(e.GetProgress())))
	case e.GetLog() != nil && c.level >= 0 && severity(e.GetLog().GetLevel()) >= c.level:
		l := e.GetLog()
		params := map[string]any{"level": l.GetLevel(), "data": jsonOf(l.GetDataJson())}
		if l.GetLogger() != "" {
			params["logger"] = l.GetLogger()
		}
		c.out.send(notification("", "notifications/message", params))
	}
	return false, nil
}

func (c *call) progressParams(p *mcppoolv1.CallProgress) map[string]any {
	params := map[string]any{"progressToken": jsonOf(c.progress), "progress": p.GetProgress()}
	if p.GetTotal() > 0 {
		params["total"] = p.GetTotal()
	}
	if p.GetMessage() != "" {
		params["message"] = p.GetMessage()
	}
	return params
}

// ask passes a question to the client: in a result since 2026-07-28, else as a request on the stream. If the client cannot ask its user, the
// question is cancelled, or refused if the revision has an error for that.
func (c *call) ask(required *mcppoolv1.CallInputRequired) (done bool, err error) {
	asked := question{User: c.User, Call: c.req.GetCallId(), Input: required.GetInputId()}
	can := c.canAsk(required)
	switch {
	case can && c.modern && c.state == "" && asked.Input != approvalInput && c.inputs.has(asked.name()): // the client knew what would be asked
		return false, c.answer(asked, c.inputs.object(asked.name()))
	case can && c.modern:
		asked.Hash = c.hash
		return true, c.reply(quote(map[string]any{
			"resultType": "input_required", "requestState": c.signer.sign(stateToken, asked),
			"inputRequests": map[string]any{asked.name(): map[string]any{"method": "elicitation/create", "params": c.elicitation(required)}},
		}))
	case can && c.out.open():
		c.out.send(notification(c.signer.sign(questionToken, asked), "elicitation/create", c.elicitation(required)))
		c.asking = asked.Input == approvalInput // the call is not made yet
		return false, nil
	case c.modern && asked.Input != approvalInput:
		c.leave()
		e := errorf(missingCapability, "the tool asks its user a question, and the client has not declared the capability elicitation for that")
		e.Data = map[string]any{"requiredCapabilities": map[string]any{"elicitation": struct{}{}}}
		return true, e
	}
	c.unasked = c.unasked || asked.Input == approvalInput
	return false, c.answer(asked, fields{"action": []byte(`"cancel"`)})
}

// canAsk reports whether the client can ask its user a question.
func (q *request) canAsk(required *mcppoolv1.CallInputRequired) bool {
	return required.GetUrl() == "" && q.client.Forms || required.GetUrl() != "" && q.client.URLs
}

// elicitation returns the params of a request to ask the user.
func (q *request) elicitation(required *mcppoolv1.CallInputRequired) map[string]any {
	params := map[string]any{"message": required.GetMessage()}
	named := q.modern || q.client.Revision == revisions[1] // the revision has modes
	if url := required.GetUrl(); url != "" {
		params["mode"], params["url"], params["elicitationId"] = "url", url, required.GetInputId()
		return params
	}
	params["requestedSchema"] = jsonOf(required.GetSchemaJson())
	if named {
		params["mode"] = "form"
	}
	return params
}

// finish answers with the result.
func (c *call) finish(result *mcppoolv1.CallResult) error {
	text := result.GetResultJson()
	if text == "" {
		text = resultOf(result)
	}
	if c.server == "" {
		text = renameContent(text, c.req.GetMcpId())
	}
	if err := c.reply(text); err != nil {
		return err
	}
	c.afterwards(func(ctx context.Context) {
		_, _ = c.pool.AckCall(ctx, &mcppoolv1.AckCallRequest{CallIds: []string{c.req.GetCallId()}}) // else the pool keeps the result for a while
	})
	return nil
}

// fail answers with the error of a call: as a result that a model can read, if the call itself has failed.
func (c *call) fail(err error) error {
	e := errs.From(err)
	switch {
	case c.Context().Err() != nil:
		c.leave()
		return nil //nolint:nilerr // the client is gone
	case e.Code == codes.Unavailable && e.Metadata[errs.OutcomeKey] == "": // the connection to the pool was lost, or someone stops
		return c.replyFailed("The call was cut off ("+e.Message+"), so it is not known whether it took effect. Look before you call the tool again.",
			e.With(errs.OutcomeKey, "UNKNOWN"))
	case statusOf(e) != 0, e.Code == codes.Canceled, e.Code == codes.NotFound && e.Reason != commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND:
		return err
	}
	if c.unasked && e.Reason == commonv1.ErrorReason_ERROR_REASON_REJECTED {
		return c.postpone(e)
	}
	return c.replyFailed(e.Message, e)
}

// replyFailed answers with a result that reports an error.
func (q *request) replyFailed(text string, e *errs.Error) error {
	detail := map[string]string{"reason": errs.ReasonName(e.Reason)}
	for key, value := range e.Metadata {
		detail[key] = value
	}
	return q.reply(quote(map[string]any{
		"content": []any{map[string]string{"type": "text", "text": text}}, "isError": true, "_meta": map[string]any{"pawl.dev/error": detail},
	}))
}
