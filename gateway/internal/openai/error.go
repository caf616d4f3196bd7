package openai

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"

	"pawl.dev/gateway/internal/problem"
)

// apiError is an error as clients of the OpenAI API expect it.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// errorBody is the body of a failed request, and the data of the event that ends a failed stream.
type errorBody struct {
	Error apiError `json:"error"`
}

// modelErrors maps the planner's classes of a model's errors to codes of the OpenAI API, with their HTTP status.
var modelErrors = map[string]struct {
	status int
	code   string
}{
	"":             {http.StatusInternalServerError, "model_error"}, // no reply fits the schema, or a task failed for a model's error
	"NOT_FOUND":    {http.StatusNotFound, "model_not_found"},
	"TOO_LONG":     {http.StatusBadRequest, "context_length_exceeded"},
	"REFUSED":      {http.StatusBadRequest, "content_policy_violation"},
	"BAD_REQUEST":  {http.StatusBadRequest, "invalid_value"},
	"AUTH":         {http.StatusInternalServerError, "model_error"},
	"BROKEN":       {http.StatusInternalServerError, "model_error"},
	"UNAVAILABLE":  {http.StatusServiceUnavailable, "model_error"},
	"RATE_LIMITED": {http.StatusTooManyRequests, "rate_limit_exceeded"},
}

// codeNames are the codes of reasons for which the OpenAI API has a code. Other reasons are codes in lower case.
var codeNames = map[string]string{
	"UNAUTHENTICATED": "invalid_api_key", "RATE_LIMITED": "rate_limit_exceeded", "BUDGET_EXCEEDED": "insufficient_quota",
	"ROUTE_NOT_FOUND": "unknown_url", "AGENT_NOT_FOUND": "model_not_found", "INVALID_REQUEST": "invalid_value",
	"TASK_NOT_FOUND": "response_not_found",
}

// fromProblem returns the error of a problem and its HTTP status.
func fromProblem(p problem.Problem) (int, apiError) {
	code, known := codeNames[p.Reason]
	if !known {
		code = strings.ToLower(p.Reason)
	}
	status := p.Status
	class, ofModel := p.Metadata["model_error"]
	if ofModel || p.Reason == "MODEL_ERROR" && p.Status == http.StatusConflict {
		if m, ok := modelErrors[class]; ok {
			status, code = m.status, m.code
		}
	}
	e := apiError{Message: p.Detail, Type: "invalid_request_error", Code: &code}
	switch {
	case status == http.StatusTooManyRequests && code == "insufficient_quota":
		e.Type = code
	case status == http.StatusTooManyRequests:
		e.Type = "rate_limit_error"
	case status >= http.StatusInternalServerError:
		e.Type = "server_error"
	}
	if code == "model_not_found" {
		param := "model"
		e.Param = &param
	}
	return status, e
}

// chatParameters replaces the names of fields of CompletionService by those of chat completions.
var chatParameters = strings.NewReplacer("completion.", "", "pawl.mcp_ids", "pawl.mcp_ids", "max_output_tokens", "max_completion_tokens", "stop_sequences", "stop",
	"output_schema_json", "response_format", "input_schema_json", "parameters", "tool_choice_name", "tool_choice", "mcp_ids", "pawl.mcp_ids")

// responseParameters does so for responses, also for those of chat completions.
var responseParameters = strings.NewReplacer("completion.", "", "pawl.mcp_ids", "pawl.mcp_ids", "messages", "input", "stop_sequences", "stop", "response_format.json_schema", "text.format",
	"response_format", "text.format", "output_schema_json", "text.format", "input_schema_json", "parameters", "tool_choice_name", "tool_choice",
	"allowed_tool_ids", "allowed_tools", "mcp_ids", "tools", "task.goal", "input")

// retryHeader tells the SDKs whether to repeat a request that failed.
const retryHeader = "X-Should-Retry"

// fail answers a request for a chat completion, or about models, with an error.
func fail(w http.ResponseWriter, err error) { failWith(w, err, chatParameters) }

// failResponse answers a request for or about a response with an error.
func failResponse(w http.ResponseWriter, err error) { failWith(w, err, responseParameters) }

func failWith(w http.ResponseWriter, err error, parameters *strings.Replacer) {
	p := problem.From(err)
	status, e := fromProblem(p)
	from := errs.From(err) // a problem has the fields' names in REST
	e.Message = from.Message
	if len(from.Violations) > 0 && from.Violations[0].Field != "" {
		e.Message = parameters.Replace(e.Message)
		param := parameters.Replace(from.Violations[0].Field)
		e.Param = &param
	}
	h := w.Header()
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="pawl"`)
	}
	if p.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfterSeconds))
	}
	// The SDKs repeat 409, 429 and 5xx by default, also where that cannot help.
	if h.Get(retryHeader) == "" {
		retry := status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests && e.Type == "rate_limit_error"
		h.Set(retryHeader, strconv.FormatBool(retry))
	}
	write(w, status, errorBody{e})
}

// write answers with JSON.
func write(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil { // a value of this package that cannot be encoded is a bug
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) //nolint:gosec // it is JSON and says so; and the client may be gone
}

// invalid returns the error of a request's parameter.
func invalid(param, format string, args ...any) error {
	e := errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
	if param == "" {
		return e
	}
	return e.WithViolation(param, e.Message)
}
