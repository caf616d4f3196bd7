package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

const (
	// replyLimit bounds the time for sending an answer to the server.
	replyLimit = 30 * time.Second
	// maxServing is how many requests of the server are handled at once per connection; further ones are dropped.
	maxServing = 200

	// The limit on requests and notifications of the server, per connection. Messages above the limit are read later, so that a server that
	// floods the connection slows down only itself.
	noteRate  = 5_000  // notifications per second
	noteBurst = 20_000 // at once
	// noteSize is the size in bytes that counts as one more notification.
	noteSize = 16 << 10
	// requestCost is how many notifications one request counts as, because a goroutine answers each request.
	requestCost = 80
)

// dispatch handles a request or notification of the server, no faster than the connection's limit allows. streamOf is the request on whose own
// stream the message came, or nil.
func (c *client) dispatch(text []byte, isNotification bool, streamOf *pendingRequest) {
	cost := 1
	if !isNotification {
		cost = requestCost
	}
	cost += len(text) / noteSize
	_ = c.throttle.WaitN(c.life, min(cost, noteBurst)) // fails only when the connection ends
	if isNotification {
		var n mcp.JSONRPCNotification
		if json.Unmarshal(text, &n) == nil {
			c.handleNotification(n)
		}
		return
	}
	var r serverRequest
	if json.Unmarshal(text, &r) != nil || c.serving.Load() >= maxServing {
		return
	}
	var call *running
	if streamOf != nil {
		call = streamOf.asker
	}
	c.serving.Add(1)
	c.background(func() { // a person may have to answer
		defer c.serving.Add(-1)
		if response := c.respond(r, call); response != nil {
			if err := c.post(c.life, replyLimit, response); err != nil {
				c.log.DebugContext(c.life, "an answer did not reach the MCP server", "mcp_id", c.server.ID, "error", err)
			}
		}
	})
}

// serverRequest is a request of the server.
type serverRequest struct {
	ID     mcp.RequestId   `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// respond returns the response to a request of the server, or nil if none is to be sent. own is the call on whose stream the request came, or nil.
func (c *client) respond(r serverRequest, own *running) mcp.JSONRPCMessage {
	if r.Method == string(mcp.MethodPing) {
		return mcp.NewJSONRPCResultResponse(r.ID, struct{}{})
	}
	raw, err := c.answer(r, own)
	refusal := Find(err)
	switch {
	case err == nil:
		return mcp.NewJSONRPCResultResponse(r.ID, raw)
	case errors.Is(err, errWithdrawn):
		return nil
	case refusal == nil || refusal.Code == 0:
		refusal = Refusef(mcp.INVALID_PARAMS, "%v", err)
	}
	return mcp.NewJSONRPCError(r.ID, refusal.Code, refusal.Message, nil)
}

// rootsResult returns the answer to roots/list.
func (c *client) rootsResult() json.RawMessage {
	result := mcp.ListRootsResult{Roots: []mcp.Root{}}
	for _, uri := range c.roots {
		root := mcp.Root{URI: uri}
		if u, err := url.Parse(uri); err == nil {
			root.Name = path.Base(u.Path)
		}
		result.Roots = append(result.Roots, root)
	}
	raw, _ := json.Marshal(result) // text always marshals
	return raw
}

// maxNote is the length in bytes to which texts of the server are cut.
const maxNote = 64 << 10

// handleNotification handles a notification of the server. It runs in the goroutine that reads the connection and must not block.
func (c *client) handleNotification(n mcp.JSONRPCNotification) {
	fields := n.Params.AdditionalFields
	text := func(key string) string {
		s, _ := fields[key].(string)
		return Cut(s)
	}
	switch n.Method {
	case string(mcp.MethodNotificationToolsListChanged):
		c.toolsVersion.Add(1)
		c.offers.onListsChanged()
	case mcp.MethodNotificationResourcesListChanged:
		c.offers.onListsChanged(Resources, ResourceTemplates)
	case mcp.MethodNotificationPromptsListChanged:
		c.offers.onListsChanged(Prompts)
	case "notifications/progress":
		c.mu.Lock()
		r := c.calls[fmt.Sprint(fields["progressToken"])]
		c.mu.Unlock()
		if r != nil {
			done, _ := fields["progress"].(float64)
			total, _ := fields["total"].(float64)
			r.notify(Notification{Progress: &Progress{Done: done, Total: total, Message: text("message")}})
		}
	case "notifications/message":
		data, err := json.Marshal(fields["data"])
		if err != nil {
			data = []byte("null")
		}
		if len(data) > maxNote {
			data, _ = json.Marshal(Cut(string(data))) // a string always marshals
		}
		c.broadcast(Notification{Log: &Log{Level: text("level"), Logger: text("logger"), Data: string(data)}})
	case string(mcp.MethodNotificationCancelled):
		c.endQuestion(questionKey{request: mcp.NewRequestId(fields["requestId"]).String()}, errWithdrawn)
	case string(mcp.MethodNotificationElicitationComplete):
		c.endQuestion(questionKey{elicitation: text("elicitationId")}, errPageDone)
	case mcp.MethodNotificationTasksStatus:
		c.wake(text("taskId"))
	case mcp.MethodNotificationResourceUpdated:
		c.offers.onUpdated(text("uri"))
	case mcp.MethodNotificationSubscriptionsAcknowledged:
		c.offers.onAcknowledged(n.Params)
	}
}

// wake makes the follower of a task poll at once.
func (c *client) wake(task string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.callOfTask(task); r != nil {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// broadcast notifies every running call, because a log message does not name its call.
func (c *client) broadcast(n Notification) {
	if c.shared {
		return // a log message does not name its user either
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.calls {
		r.notify(n)
	}
}

// Cut shortens a text to maxNote at the end of a character, and marks it as cut off.
func Cut(s string) string {
	if len(s) <= maxNote {
		return s
	}
	return strings.ToValidUTF8(s[:maxNote], "") + "… (cut off)"
}

// The causes that end a question without an answer of the person.
var (
	errWithdrawn = errors.New("the server withdrew the question")
	errPageDone  = errors.New("the server reports that the page was completed")
)

// input is what a server asks for during a call. One of question, sample and answer is set.
type input struct {
	question    *Question       // for the person
	sample      *Sample         // for a model
	answer      json.RawMessage // the pool's own answer, to a request for roots
	elicitation string          // the server's id of the page to open; may be empty
}

// readInput reads a server's request for input, which is a request of its own or part of a result. The error is for the server.
func (c *client) readInput(method string, params json.RawMessage) (in input, err error) {
	switch method {
	case string(mcp.MethodListRoots):
		if len(c.roots) == 0 {
			return in, Refusef(mcp.METHOD_NOT_FOUND, "no roots are configured")
		}
		return input{answer: c.rootsResult()}, nil
	case string(mcp.MethodElicitationCreate):
		in.question, err = readQuestion(params)
		in.elicitation = memberOf(params, "elicitationId")
		return in, err
	case string(mcp.MethodSamplingCreateMessage):
		if !c.sampling {
			return in, c.samplingRefused()
		}
		in.sample, err = readSample(params)
		return in, err
	}
	return in, Refusef(mcp.METHOD_NOT_FOUND, "not supported: %.100q", method)
}

// answer gets the answer to a request of the server. own is the call on whose stream the request came, or nil. The error is for the server, or
// it is errWithdrawn.
func (c *client) answer(r serverRequest, own *running) (json.RawMessage, error) {
	in, err := c.readInput(r.Method, r.Params)
	if in.answer != nil {
		return in.answer, nil
	}
	what, ofModel := "input", r.Method == string(mcp.MethodSamplingCreateMessage)
	if ofModel {
		what = "a model's answer"
	}
	call, raw := own, json.RawMessage(nil)
	if err == nil {
		call, err = c.callOf(own, r.Params, what)
	}
	if err == nil {
		if in.question != nil {
			in.question.ID = "q" + strconv.Itoa(int(call.asked.Add(1)))
		}
		raw, err = c.resolve(call.ctx, call, in, questionKey{request: r.ID.String()})
	}
	if err != nil && ofModel && call != nil && !errors.Is(err, errWithdrawn) {
		call.warnOnce.Do(func() { call.notify(warning(err)) })
	}
	return raw, err
}

// resolve gets the answer to a server's request for input. It stops when ctx or the connection ends, or when the server ends the request under
// one of the keys or its elicitation id. If the server reports that the page was completed, or the call ends, it returns an answer in place of
// the person's.
func (c *client) resolve(ctx context.Context, r *running, in input, keys ...questionKey) (raw json.RawMessage, err error) {
	if in.answer != nil {
		return in.answer, nil
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(c.life, func() { end(errClosed) })()
	for _, key := range append(keys, questionKey{elicitation: in.elicitation}) {
		defer c.openQuestion(key, end)()
	}
	switch {
	case in.sample != nil && r.call.Sample == nil:
		err = c.samplingRefused()
	case in.sample != nil:
		var got Sampled
		got, err = r.call.Sample(ctx, *in.sample)
		raw = got.Result()
	case r.call.Ask == nil:
		err = errors.New("no person can be asked during this call")
	default:
		var answer Answer
		answer, err = r.call.Ask(ctx, *in.question)
		raw = answer.Result()
	}
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return raw, nil
	case errors.Is(cause, errWithdrawn), in.question != nil && errors.Is(cause, errClosed):
		// No answer is sent: an answer that the person did not give could become the call's result.
		return nil, errWithdrawn
	case cause != nil && in.sample != nil:
		return nil, Refusef(SampleRefused, "the call that the model was asked for has ended")
	case errors.Is(cause, errPageDone):
		return Answer{Action: Accept}.Result(), nil
	case cause != nil:
		return Answer{Action: Cancel}.Result(), nil
	}
	return nil, err
}

// warning returns a log message of the pool for the caller.
func warning(err error) Notification {
	data, _ := json.Marshal(err.Error()) // a string always marshals
	return Notification{Log: &Log{Level: "warning", Logger: "pawl", Data: string(data)}}
}

// questionKey identifies an open question. One of its fields is set.
type questionKey struct {
	request     string // the id of the server's request
	elicitation string // the server's id of the page to open
}

// openQuestion registers a question so that endQuestion can end it. The returned function removes it.
func (c *client) openQuestion(key questionKey, end context.CancelCauseFunc) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key == (questionKey{}) || c.openQuestions[key] != nil { // if the server uses an id twice, endQuestion ends only the first question
		return func() {}
	}
	if why := c.earlyEnds[key]; why != nil {
		delete(c.earlyEnds, key)
		end(why)
	}
	c.openQuestions[key] = end
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.openQuestions, key)
	}
}

// maxEarly bounds client.earlyEnds.
const maxEarly = 100

// endQuestion ends a question with a cause, even if the question is not open yet.
func (c *client) endQuestion(key questionKey, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := c.openQuestions[key]; end != nil {
		end(why)
		return
	}
	if len(c.earlyEnds) >= maxEarly {
		clear(c.earlyEnds)
	}
	c.earlyEnds[key] = why
}

// memberOf returns the text of an object's member, or "" if that is not a string.
func memberOf(object json.RawMessage, key string) string {
	value, _ := strictjson.Member(object, key)
	return stringOf(value)
}

// samplingRefused returns the error for a server that may not ask models, with the remedy.
func (c *client) samplingRefused() error {
	return Refusef(SampleRefused,
		"MCP server %s may not ask models (sampling); an operator allows it with `sampling` in the server's configuration file, or `pawl mcp update %[1]s --sampling any`", c.server.ID)
}

// Refusef makes an error that is sent to the server with a JSON-RPC code.
func Refusef(code int, format string, args ...any) *Error {
	e := Errorf(Answered, format, args...)
	e.Code = code
	return e
}
