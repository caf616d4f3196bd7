package openai

import (
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/serve"

	"pawl.dev/gateway/internal/problem"
	"pawl.dev/gateway/internal/rest"
	"pawl.dev/gateway/internal/stream"
)

// Base is the path below which the API is served.
const Base = "/openai/v1"

// Handler serves the API.
type Handler struct {
	conns   rest.Conns
	api     *rest.Handler
	streams *stream.Handler
}

// New returns the handler. api checks callers and reads bodies.
func New(conns rest.Conns, api *rest.Handler, streams *stream.Handler) *Handler {
	return &Handler{conns: conns, api: api, streams: streams}
}

// ServeHTTP serves a request below Base.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, Base)
	id, isModel := strings.CutPrefix(path, "/models/")
	method, serve := http.MethodGet, func(w http.ResponseWriter, r *http.Request) { h.model(w, r, id) }
	switch {
	case path == "/models":
		serve = h.models
	case path == "/chat/completions":
		method, serve = http.MethodPost, h.chat
	case !isModel || id == "":
		fail(w, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_ROUTE_NOT_FOUND,
			"there is no %s %s here; Pawl serves models and chat/completions of the OpenAI API below %s", r.Method, strings.ToValidUTF8(r.URL.Path, "�"), Base))
		return
	}
	if r.Method != method {
		w.Header().Set("Allow", method)
		p := problem.New(http.StatusMethodNotAllowed, commonv1.ErrorReason_ERROR_REASON_ROUTE_NOT_FOUND, "%s takes %s, not %s", r.URL.Path, method, r.Method)
		status, e := fromProblem(p)
		write(w, status, errorBody{e})
		return
	}
	serve(w, r)
}

// call is what a request becomes: a call of a service, and how to read its messages.
type call struct {
	stream.Call
	source source
}

// newCall returns a call of a service's streaming method.
func newCall(conn grpc.ClientConnInterface, service protoreflect.ServiceDescriptor, method protoreflect.Name, in proto.Message, s source) *call {
	rpc := service.Methods().ByName(method)
	name := "/" + string(service.FullName()) + "/" + string(method)
	return &call{stream.Call{Conn: conn, Method: name, RPC: rpc, In: in, Fail: fail}, s}
}

// completions is the service that answers for models.
var completions = pipelinev1.File_pawl_pipeline_v1_completion_proto.Services().ByName("CompletionService")

// tasks is the service that answers for agents.
var tasks = executorv1.File_pawl_executor_v1_executor_service_proto.Services().ByName("ExecutorService")

// chat serves POST /chat/completions.
func (h *Handler) chat(w http.ResponseWriter, r *http.Request) {
	r, body, held, ok := h.api.Receive(w, r, rest.Incoming{
		Conn: h.conns.Executor, MaxBody: int64(serve.MaxRequest(completions.Methods().ByName("StreamComplete"))), Streams: true, Fail: fail,
	})
	if !ok {
		return
	}
	defer held.Release()
	q, err := readChat(body, r.Header)
	if err != nil {
		fail(w, err)
		return
	}
	c, err := h.callOf(q, r)
	if err != nil {
		fail(w, err)
		return
	}
	if strings.HasPrefix(q.Model, agentPrefix) && r.Header.Get("Idempotency-Key") == "" {
		w.Header().Set(retryHeader, "false") // a repetition would create another task
	}
	held.Shrink(serve.CallBytes(true, int64(proto.Size(c.In))))
	a := newAnswer(q.Model, c.source)
	if q.Stream {
		c.Framing = &chunks{answer: a, includeUsage: q.StreamOptions.IncludeUsage}
		h.streams.Serve(w, r, c.Call)
		return
	}
	out, err := a.whole(r.Context(), c.Call)
	if err != nil {
		fail(w, err)
		return
	}
	write(w, http.StatusOK, out)
}

// callOf returns the call for a request: of CompletionService for a model, of ExecutorService for an agent.
func (h *Handler) callOf(q *chatRequest, r *http.Request) (*call, error) {
	if agent, ok := strings.CutPrefix(q.Model, agentPrefix); ok {
		in, err := q.task(agent, r.Header)
		if err != nil {
			return nil, err
		}
		return newCall(h.conns.Executor, tasks, "RunTask", in, &taskSource{base: baseURL(r)}), nil
	}
	in, err := q.completion()
	if err != nil {
		return nil, err
	}
	single := q.ParallelToolCalls != nil && !*q.ParallelToolCalls
	return newCall(h.conns.Executor, completions, "StreamComplete", &pipelinev1.StreamCompleteRequest{Completion: in}, &completionSource{single: single}), nil
}

// baseURL returns the scheme and host by which the client reached the gateway.
func baseURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
