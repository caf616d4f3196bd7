package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pawl.dev/gateway/gateway"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

func timestamp(t *testing.T, s string) *timestamppb.Timestamp {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return timestamppb.New(at)
}

// TestPathsAndMethods: an unknown path is 404, a known one with another method is 405 with Allow (issue 2, shown by 7).
func TestPathsAndMethods(t *testing.T) {
	tests := []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/nothing", 404, ""},
		{"GET", "/v1/nothing", 404, ""},
		{"GET", "/v1/tasks/", 404, ""},
		{"GET", "//v1/tasks", 404, ""},
		{"GET", "/v1/tasks//events", 404, ""},
		{"GET", "/v1/tasks/a%2Fb", 404, ""},
		{"GET", "/v1/tasks/" + taskID + ":explode", 404, ""},
		{"POST", "/v1/tasks/:resume", 404, ""},
		{"GET", "/v1/tasks/abc:resume", 405, "POST"},
		{"GET", "/v1/tasks/abc%3Aresume", 405, "POST"},
		{"GET", "/v1/tasks:run", 405, "POST"},
		{"PUT", "/v1/tasks", 405, "GET, POST"},
		{"POST", "/v1/agents/a", 405, "DELETE, GET, PATCH"},
		{"POST", "/v1/tasks/" + taskID + "/events", 405, "GET"},
		{"DELETE", "/docs", 405, "GET, HEAD"},
		{"POST", "/readyz", 405, "GET, HEAD"},
		{"OPTIONS", "/v1/tasks", 405, "GET, POST"},
	}
	b := start(t, gateway.Config{})
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			b := b.in(t)
			resp, _ := b.problem(tt.method, tt.path, "", nil, tt.status)
			if got := resp.Header.Get("Allow"); got != tt.allow {
				t.Errorf("Allow %q, want %q", got, tt.allow)
			}
		})
	}
	if calls := b.journal.take(); len(calls) > 0 {
		t.Errorf("calls %v, want none", calls)
	}
}

// TestBadRequests: each error names the fault and its field (issue 2, shown by 7).
func TestBadRequests(t *testing.T) {
	tests := map[string]struct {
		method, path, body string
		detail, field      string
	}{
		"malformed JSON": {"POST", "/v1/tasks", "{\n  \"goal\": \"g\",\n  \"model\" \"m\"\n}", "(line 3, column 11): invalid character '\"'", ""},
		"cut off":        {"POST", "/v1/tasks", `{"goal": "g"`, "unexpected end of JSON input", ""},
		"two values":     {"POST", "/v1/tasks", `{"goal": "g"} {}`, "(line 1, column 15)", ""},
		"not an object":  {"POST", "/v1/tasks", `[1]`, "(line 1, column 1)", ""},
		"null":           {"POST", "/v1/tasks", `null`, "(line 1, column 1)", ""},
		"unknown field":  {"POST", "/v1/tasks", `{"gaol": "g"}`, `gaol: unknown field "gaol"; did you mean "goal"? (line 1, column 2)`, "gaol"},
		"unknown field inside": {"POST", "/v1/tasks/" + taskID + ":resume", `{"waitId": "w", "approve": {"inputs": {}}}`,
			`approve.inputs: unknown field "inputs"; did you mean "input"?`, "approve.inputs"},
		"wrong type":      {"POST", "/v1/tasks", `{"goal": 5}`, "goal: 5 (line 1, column 10)", "goal"},
		"twice":           {"POST", "/v1/tasks", `{"goal": "a", "goal": "b"}`, "duplicate", "goal"},
		"unknown value":   {"POST", "/v1/tasks", `{"goal": "g", "language": "en"}`, `did you mean "LANGUAGE_EN"?`, "language"},
		"both of a oneof": {"POST", "/v1/tasks/" + taskID + ":resume", `{"waitId": "w", "approve": {}, "reject": {}}`, "oneof", ""},
		"number that would be rounded": {"POST", "/v1/mcpServers/m/tools:call", `{"name": "t", "input": {"ids": [1, 9007199254740993]}}`,
			"9007199254740993 would be rounded here; send all of input as JSON text, in the field inputJson instead (line 1, column 36)", "input"},
		"unknown parameter":       {"GET", "/v1/tasks?statuss=EXECUTOR_STATUS_ERROR", "", `unknown parameter "statuss"; did you mean "statuses"?`, "statuss"},
		"parameter of a body":     {"POST", "/v1/tasks?goal=g", `{"goal": "g"}`, "the rest goes into the body, as JSON", "goal"},
		"parameter of the path":   {"GET", "/v1/tasks/" + taskID + "?id=x", "", `unknown parameter "id"`, "id"},
		"bad number in the query": {"GET", "/v1/tasks?pageSize=many", "", `the parameter pageSize of the query does not fit: it must be a whole number, is "many"`, "pageSize"},
		"too large a number":      {"GET", "/v1/tasks?pageSize=99999999999", "", `it must be a whole number, is "99999999999": beyond the range of int32`, "pageSize"},
		"less than no number":     {"GET", "/v1/tasks/" + taskID + "/events?afterSeq=-1", "", `afterSeq of the query does not fit: it must be a whole number, 0 or more, is "-1"`, "afterSeq"},
		"neither true nor false":  {"GET", "/v1/tasks/" + taskID + "/events?noFollow=maybe", "", `it must be true or false, is "maybe"`, "noFollow"},
		"no time":                 {"GET", "/v1/tasks?createdAfter=today", "", `it must be a time such as 2026-01-02T03:04:05Z, is "today"`, "createdAfter"},
		"bad value in the query":  {"GET", "/v1/tasks?statuses=ERROR", "", `did you mean "EXECUTOR_STATUS_ERROR"?`, "statuses"},
		"invalid UTF-8":           {"POST", "/v1/agents?requestId=%ff", "", `the parameter requestId of the query does not fit: its value "\xff" is not valid UTF-8`, "requestId"},
		"invalid UTF-8 in a list": {"GET", "/v1/agents?pageToken=%ff", "", "is not valid UTF-8", "pageToken"},
		"invalid UTF-8 in a path": {"GET", "/v1/tasks/%ff", "", `"\xff" does not fit {id} in the path: it is not valid UTF-8`, ""},
		"bad query":               {"GET", "/v1/tasks?pageSize=%zz", "", "escape", ""},
		"unknown field of a mask": {"PATCH", "/v1/agents/a?updateMask=displayNam", `{}`, `did you mean "displayName"?`, "updateMask"},
		"body of a DELETE":        {"DELETE", "/v1/agents/a", `{"etag": "e"}`, "takes no body", ""},
		"rule of the contract":    {"POST", "/v1/tasks", `{}`, "goal is required", ""},
		"rule of a field":         {"POST", "/v1/tasks", `{"goal": "g", "mcpIds": ["a", "a"]}`, "mcpIds", "mcpIds"},
		"id of a task":            {"GET", "/v1/tasks/abc", "", "id", "id"},
		"id of a watched task":    {"GET", "/v1/tasks/abc/events", "", "id", "id"},
	}
	b := start(t, gateway.Config{})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			_, p := b.problem(tt.method, tt.path, tt.body, nil, http.StatusBadRequest)
			if p.Reason != "INVALID_REQUEST" || !strings.Contains(p.Detail, tt.detail) {
				t.Errorf("reason %s, detail %q; want one with %q", p.Reason, p.Detail, tt.detail)
			}
			if strings.Contains(p.Detail, "strconv") {
				t.Errorf("detail %q names a function of Go", p.Detail)
			}
			if tt.field != "" && (len(p.Violations) != 1 || p.Violations[0].Field != tt.field || p.Violations[0].Description == "") {
				t.Errorf("violations %v, want one of %s", p.Violations, tt.field)
			}
		})
	}
	if calls := b.journal.take(); len(calls) > 0 {
		t.Errorf("%d calls reached a service, want none", len(calls))
	}
}

// TestLargeBody: 10 MiB are refused with a clear answer, read or unread (issue 2, shown by 7).
func TestLargeBody(t *testing.T) {
	b := start(t, gateway.Config{})
	body := `{"goal": "` + strings.Repeat("g", 10<<20) + `"}`
	for name, h := range map[string]header{"sent at once": nil, "asked first": {"Expect": "100-continue"}} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			_, p := b.problem("POST", "/v1/tasks", body, h, http.StatusRequestEntityTooLarge)
			if p.Reason != "TOO_LARGE" || !strings.Contains(p.Detail, "1048576 bytes") {
				t.Errorf("problem %+v, want TOO_LARGE with the limit", p)
			}
		})
	}
	t.Run("of unknown length", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/tasks", &onlyReader{strings.NewReader(body)})
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := b.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d, want 413", resp.StatusCode)
		}
	})
	if resp, text := b.text("POST", "/v1/tasks", `{"goal": "`+strings.Repeat("g", 90_000)+`"}`, nil); resp.StatusCode != http.StatusOK {
		t.Errorf("a body within the limit: status %d: %s", resp.StatusCode, text)
	}
}

// onlyReader hides the length of its content.
type onlyReader struct{ r *strings.Reader }

func (o *onlyReader) Read(p []byte) (int, error) { return o.r.Read(p) }

// TestServiceErrors: an error's reason, metadata and retry delay survive.
func TestServiceErrors(t *testing.T) {
	b := start(t, gateway.Config{})
	b.executor.CreateTaskFn = func(*executorv1.CreateTaskRequest) (*executorv1.Task, error) {
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED, "five requests in 15 s").
			With("limit", "5").WithRetryAfter(2500 * time.Millisecond)
	}
	resp, p := b.problem("POST", "/v1/tasks", `{"goal": "g"}`, nil, http.StatusTooManyRequests)
	if p.Reason != "LIMIT_REACHED" || p.Title != "Limit reached" || p.Detail != "five requests in 15 s" || p.Metadata["limit"] != "5" {
		t.Errorf("problem %+v", p)
	}
	if got := resp.Header.Get("Retry-After"); got != "3" || p.RetryAfterSeconds != 3 {
		t.Errorf("Retry-After %q and %d, want 3", got, p.RetryAfterSeconds)
	}
}

// TestTooManyRequests: a caller that asks too often learns when to try again (A28), from a stream too.
func TestTooManyRequests(t *testing.T) {
	b := start(t, gateway.Config{})
	limited := errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "5 requests in 15 s").WithRetryAfter(12010 * time.Millisecond)
	b.executor.CreateTaskFn = func(*executorv1.CreateTaskRequest) (*executorv1.Task, error) { return nil, limited }
	b.executor.RunTaskFn = func(*executorv1.RunTaskRequest, eventStream) error { return limited }
	for _, path := range []string{"/v1/tasks", "/v1/tasks:run"} {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			resp, p := b.problem("POST", path, `{"goal": "g"}`, header{"Accept": accept}, http.StatusTooManyRequests)
			if got := resp.Header.Get("Retry-After"); got != "13" || p.RetryAfterSeconds != 13 || p.Reason != "RATE_LIMITED" {
				t.Errorf("%s as %s: Retry-After %q, problem %+v; want 13", path, accept, got, p)
			}
		}
	}
}

// TestKeys: without a key 401 with a challenge, and another user's object is as if it were not there (shown by 6).
func TestKeys(t *testing.T) {
	b := startWith(t, gateway.Config{Authenticated: true}, serve.Options{Auth: keys{"pawl_good": {Sub: "ann", Roles: []identity.Role{identity.RoleUser}}}})
	for name, h := range map[string]header{"none": nil, "wrong": {"Authorization": "Bearer pawl_bad"}} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			resp, p := b.problem("GET", "/v1/tasks", "", h, http.StatusUnauthorized)
			if p.Reason != "UNAUTHENTICATED" || !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("reason %s, WWW-Authenticate %q", p.Reason, resp.Header.Get("WWW-Authenticate"))
			}
			b.problem("GET", "/v1/tasks/"+taskID+"/events", "", h, http.StatusUnauthorized)
		})
	}
	if resp, text := b.text("GET", "/v1/tasks", "", header{"Authorization": "Bearer pawl_good", "Host": "pawl.example.com"}); resp.StatusCode != http.StatusOK {
		t.Errorf("with a key: status %d: %s", resp.StatusCode, text)
	}
}
