package openai

import (
	"maps"
	"net/http"
	"slices"
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
	methods := h.route(strings.TrimPrefix(r.URL.Path, Base))
	if methods == nil {
		fail(w, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_ROUTE_NOT_FOUND,
			"there is no %s %s here; Pawl serves models, chat/completions and responses of the OpenAI API below %s", r.Method, strings.ToValidUTF8(r.URL.Path, "�"), Base))
		return
	}
	if serve, ok := methods[r.Method]; ok {
		serve(w, r)
		return
	}
	allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
	w.Header().Set("Allow", allowed)
	p := problem.New(http.StatusMethodNotAllowed, commonv1.ErrorReason_ERROR_REASON_ROUTE_NOT_FOUND, "%s takes %s, not %s", r.URL.Path, allowed, r.Method)
	status, e := fromProblem(p)
	write(w, status, errorBody{e})
}

// route returns what serves a path, by method; nil if there is no such path.
func (h *Handler) route(path string) map[string]http.HandlerFunc {
	if id, ok := strings.CutPrefix(path, "/models/"); ok && id != "" {
		return map[string]http.HandlerFunc{http.MethodGet: func(w http.ResponseWriter, r *http.Request) { h.model(w, r, id) }}
	}
	if id, ok := strings.CutPrefix(path, "/responses/"); ok && id != "" {
		_, part, _ := strings.Cut(id, "/")
		path = "/responses/{id}/" + part
	}
	switch path {
	case "/models":
		return map[string]http.HandlerFunc{http.MethodGet: h.models}
	case "/chat/completions":
		return map[string]http.HandlerFunc{http.MethodPost: h.chat}
	case "/responses":
		return map[string]http.HandlerFunc{http.MethodPost: h.createResponse}
	case "/responses/{id}/":
		return map[string]http.HandlerFunc{http.MethodGet: h.getResponse, http.MethodDelete: h.deleteResponse}
	case "/responses/{id}/cancel":
		return map[string]http.HandlerFunc{http.MethodPost: h.cancelResponse}
	case "/responses/{id}/input_items":
		return map[string]http.HandlerFunc{http.MethodGet: h.inputOf}
	}
	return nil
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

// received is a request whose caller is known and whose body was read.
type received struct {
	*http.Request
	body []byte
	held *serve.Holding
}

// receive has a request received and answered, and answers it with the error that serve returns.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request, in rest.Incoming, serve func(received) error) {
	in.Conn = h.conns.Executor
	r, body, held, ok := h.api.Receive(w, r, in)
	if !ok {
		return
	}
	defer held.Release()
	if err := serve(received{r, body, held}); err != nil {
		in.Fail(w, err)
	}
}

// asking returns how a request that asks a model or an agent is taken.
func asking(fail func(http.ResponseWriter, error)) rest.Incoming {
	return rest.Incoming{MaxBody: int64(serve.MaxRequest(completions.Methods().ByName("StreamComplete"))), Streams: true, Fail: fail}
}

// dontRepeat tells the client not to repeat a request that creates a task, unless a key names the request: a repetition would create another one.
func dontRepeat(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Idempotency-Key") == "" {
		w.Header().Set(retryHeader, "false")
	}
}

// chat serves POST /chat/completions.
func (h *Handler) chat(w http.ResponseWriter, r *http.Request) {
	h.receive(w, r, asking(fail), func(r received) error {
		q, err := readChat(r.body, r.Header)
		if err != nil {
			return err
		}
		c, err := h.callOf(q, r.Request)
		if err != nil {
			return err
		}
		if strings.HasPrefix(q.Model, agentPrefix) {
			dontRepeat(w, r.Request)
		}
		r.held.Shrink(serve.CallBytes(true, int64(proto.Size(c.In))))
		a := newAnswer(q.Model, c.source)
		if q.Stream {
			c.Framing = &chunks{answer: a, includeUsage: q.StreamOptions.IncludeUsage}
			h.streams.Serve(w, r.Request, c.Call)
			return nil
		}
		out, err := a.whole(r.Context(), c.Call, w.Header())
		if err == nil {
			write(w, http.StatusOK, out)
		}
		return err
	})
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
