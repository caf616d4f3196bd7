package llm_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pawl.dev/planner-svc/internal/llm"
)

// TestErrors checks classes, messages, and how often requests are sent with two retries.
func TestErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		answer   func() *http.Response
		class    llm.Class
		says     string
		requests uint32
		pause    time.Duration // at least, between the first and the last request
	}{
		"openai 401":        {fixed(401, `{"error":{"message":"Incorrect API key provided: `+key+`","type":"invalid_request_error","code":"invalid_api_key"}}`), llm.Auth, "***", 1, 0},
		"openai 429":        {fixed(429, `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`, "Retry-After", "7"), llm.RateLimited, "slow down", 3, 14 * time.Second},
		"openai 429 long":   {fixed(429, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, "Retry-After", "3600"), llm.RateLimited, "slow down", 1, 0},
		"openai 429 quota":  {fixed(429, `{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}`), llm.Auth, "pay", 1, 0},
		"openai 500":        {fixed(500, `{"error":{"message":"oh","type":"server_error","code":null}}`), llm.Unavailable, "HTTP 500: oh", 3, time.Second},
		"openai 503 page":   {fixed(503, `<html>down</html>`), llm.Unavailable, "HTTP 503: Service Unavailable", 3, time.Second},
		"openai 408":        {fixed(408, ``), llm.Unavailable, "408", 3, time.Second},
		"openai 409":        {fixed(409, ``), llm.Unavailable, "409", 3, time.Second},
		"openai 400":        {fixed(400, `{"error":{"message":"bad tool","type":"invalid_request_error","param":"tools","code":null}}`), llm.BadRequest, "bad tool", 1, 0},
		"openai window":     {fixed(400, `{"error":{"message":"too many tokens","code":"context_length_exceeded"}}`), llm.TooLong, "too many", 1, 0},
		"openai 404":        {fixed(404, `{"error":{"message":"no m-1","code":"model_not_found"}}`), llm.NotFound, "no m-1", 1, 0},
		"openai filter":     {fixed(400, `{"error":{"message":"no","code":"content_filter"}}`), llm.Refused, "no", 1, 0},
		"openai plain text": {fixed(400, `{"error":"model \"x\" does not support tools"}`), llm.BadRequest, "does not support tools", 1, 0},
		"openai in stream":  {events(`data: {"error":{"message":"gone","type":"server_error","code":null}}` + "\n\n"), llm.Unavailable, "gone", 3, time.Second},
		"openai wrong JSON": {events("data: {\"choices\":[\n\n"), llm.Broken, "JSON", 1, 0},
		"openai page":       {page("<!doctype html>\n<title>Sign\x1b[2J in</title> " + key), llm.Broken, `text/html came instead of a stream of events: "<!doctype html> <title>Sign\x1b[2J in</title> ***"`, 1, 0},
		"openai one piece":  {fixed(200, `{"choices":[{"message":{"content":"x"}}]}`), llm.Broken, "application/json came instead of a stream of events: `{\"choices\"", 1, 0},
		"openai empty":      {events(""), llm.Broken, "broke off", 1, 0},
		"openai network":    {func() *http.Response { return nil }, llm.Unavailable, "connection reset", 3, time.Second},
		"openai endless":    {func() *http.Response { return stream(endless{}) }, llm.Broken, "more than 64 MiB", 1, 0},
		"anthropic 401":     {fixed(401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key `+key+`"}}`), llm.Auth, "***", 1, 0},
		"anthropic 429":     {fixed(429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, "Retry-After", "7"), llm.RateLimited, "slow down", 3, 14 * time.Second},
		"anthropic 500":     {fixed(500, `{"type":"error","error":{"type":"api_error","message":"oh"}}`), llm.Unavailable, "oh", 3, time.Second},
		"anthropic 529":     {fixed(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), llm.Unavailable, "HTTP 529: Overloaded", 3, time.Second},
		"anthropic 413":     {fixed(413, `{"type":"error","error":{"type":"request_too_large","message":"too large"}}`), llm.TooLong, "too large", 1, 0},
		"anthropic window":  {fixed(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`), llm.TooLong, "9 tokens", 1, 0},
		"anthropic credit":  {fixed(400, `{"type":"error","error":{"type":"billing_error","message":"Your credit balance is too low"}}`), llm.Auth, "credit", 1, 0},
		"anthropic stream":  {events("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"), llm.Unavailable, "Overloaded", 3, time.Second},
		"anthropic JSON":    {events("event: message_start\ndata: {\"type\":\n\n"), llm.Broken, "JSON", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provider, _, _ := strings.Cut(name, " ")
				sent, begin := uint32(0), time.Now()
				m := modelOf(provider, 2, func(*http.Request, string) *http.Response {
					sent++
					return tt.answer()
				})
				reply, err := collect(t, m, hello())
				if llm.ClassOf(err) != tt.class || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), key) {
					t.Errorf("%s: %v, want %s with %q", llm.ClassOf(err), err, tt.class, tt.says)
				}
				if sent != tt.requests || reply.Usage.Requests != sent || time.Since(begin) < tt.pause {
					t.Errorf("%d requests in %v, %+v; want %d", sent, time.Since(begin), reply.Usage, tt.requests)
				}
			})
		})
	}
}

func fixed(code int, body string, header ...string) func() *http.Response {
	return func() *http.Response { return status(code, body, header...) }
}

func events(body string) func() *http.Response {
	return func() *http.Response { return stream(strings.NewReader(body)) }
}

func page(body string) func() *http.Response {
	return func() *http.Response { return status(200, body, "Content-Type", "text/html; charset=utf-8") }
}

// endless is a stream of comments.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ':'
	}
	p[len(p)-1] = '\n'
	return len(p), nil
}

// TestRetriesUntilAnswered counts the tokens of the attempt that succeeds, and all requests.
func TestRetriesUntilAnswered(t *testing.T) {
	for _, provider := range []string{"openai", "anthropic"} {
		synctest.Test(t, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata", provider, "tools.sse"))
			if err != nil {
				t.Fatal(err)
			}
			sent := 0
			reply, err := collect(t, modelOf(provider, 2, func(*http.Request, string) *http.Response {
				if sent++; sent < 3 {
					return status(529, "")
				}
				return stream(bytes.NewReader(raw))
			}), hello())
			want := counted
			want.Requests = 3
			if err != nil || reply.Usage != want || len(reply.Calls) != 1 {
				t.Errorf("%s: %v, %+v", provider, err, reply)
			}
		})
	}
}

// TestLongAnswer ends an answer that has no end.
func TestLongAnswer(t *testing.T) {
	piece := "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("x", 1<<20) + "\"}}]}\n\n"
	reply, err := modelOf("openai", 2, func(*http.Request, string) *http.Response { return events(strings.Repeat(piece, 6))() }).Generate(t.Context(), hello(), nil)
	if llm.ClassOf(err) != llm.Broken || !strings.Contains(err.Error(), "more than 4 MiB") || len(reply.Text) != 4<<20 {
		t.Errorf("%d bytes: %v", len(reply.Text), err)
	}
}

// TestRetriesWithinBudget sends no more requests than the caller reserved.
func TestRetriesWithinBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for most, want := range map[uint32]uint32{0: 3, 1: 1, 2: 2, 5: 3} {
			r := hello()
			r.MaxRequests = most
			reply, err := modelOf("openai", 2, func(*http.Request, string) *http.Response { return status(529, "") }).Generate(t.Context(), r, nil)
			if llm.ClassOf(err) != llm.Unavailable || reply.Usage.Requests != want {
				t.Errorf("of %d: %+v, %v", most, reply.Usage, err)
			}
		}
	})
}

// TestNoRetryAfterText does not repeat a request whose answer was passed on in part.
func TestNoRetryAfterText(t *testing.T) {
	sent := 0
	reply, err := collect(t, modelOf("openai", 2, func(*http.Request, string) *http.Response {
		sent++
		return stream(strings.NewReader("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"type\":\"server_error\",\"message\":\"gone\"}}\n\n"))
	}), hello())
	if llm.ClassOf(err) != llm.Unavailable || sent != 1 || reply.Text != "a" || !reply.Usage.Unreported {
		t.Errorf("%d requests, %v, %+v", sent, err, reply)
	}
}

// TestRetryOfDroppedText repeats a request whose answer was passed on in part if that part can be dropped, or if nothing takes the parts.
func TestRetryOfDroppedText(t *testing.T) {
	for name, tt := range map[string]struct {
		piece   string
		onDelta func(llm.Delta) error
		restart func() bool
		want    int // requests
	}{
		"dropped":     {`"content":"a"`, func(llm.Delta) error { return nil }, func() bool { return true }, 3},
		"a call":      {`"tool_calls":[{"index":0,"id":"1","function":{"name":"x","arguments":"{"}}]`, func(llm.Delta) error { return nil }, func() bool { return true }, 3},
		"not dropped": {`"content":"a"`, func(llm.Delta) error { return nil }, func() bool { return false }, 1},
		"no taker":    {`"content":"a"`, nil, nil, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			r := hello()
			r.Restart = tt.restart
			reply, err := modelOf("openai", 2, func(*http.Request, string) *http.Response {
				sent++
				return stream(strings.NewReader("data: {\"choices\":[{\"delta\":{" + tt.piece + "}}]}\n\ndata: {\"error\":{\"type\":\"server_error\",\"message\":\"gone\"}}\n\n"))
			}).Generate(t.Context(), r, tt.onDelta)
			if llm.ClassOf(err) != llm.Unavailable || sent != tt.want || int(reply.Usage.Requests) != tt.want {
				t.Errorf("%s: %d requests, %v, %+v", name, sent, err, reply)
			}
		})
	}
}

// silent says nothing until its request ends.
type silent struct{ done <-chan struct{} }

func (s silent) Read([]byte) (int, error) {
	<-s.done
	return 0, context.Canceled
}

// TestSilence gives up an answer that stops in the middle; TestCancel one that the caller does not want.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		m := modelOf("anthropic", 0, func(r *http.Request, _ string) *http.Response {
			return stream(io.MultiReader(strings.NewReader(": hello\n"), silent{r.Context().Done()}))
		})
		_, err := collect(t, m, hello())
		if llm.ClassOf(err) != llm.Unavailable || !strings.Contains(err.Error(), "silent") || time.Since(begin) < time.Minute {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := errors.New("the caller left")
		for _, provider := range []string{"openai", "anthropic"} {
			begin := time.Now()
			ended := make(chan struct{})
			m := modelOf(provider, 2, func(r *http.Request, _ string) *http.Response {
				context.AfterFunc(r.Context(), func() { close(ended) })
				return stream(silent{r.Context().Done()})
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(left) })
			reply, err := m.Generate(ctx, hello(), nil)
			<-ended
			if !errors.Is(err, left) || reply.Usage != unknown || time.Since(begin) != time.Second {
				t.Errorf("%s: %v, %+v after %v", provider, err, reply, time.Since(begin))
			}
		}
		// In the pause before a retry.
		m := modelOf("openai", 2, func(*http.Request, string) *http.Response { return status(500, "") })
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(left) })
		if reply, err := m.Generate(ctx, hello(), nil); !errors.Is(err, left) || reply.Usage.Requests != 1 {
			t.Errorf("%v, %+v", err, reply)
		}
	})
}

// TestNoAddressForUsers: users see that the model's provider cannot be reached, and operators where it is.
func TestNoAddressForUsers(t *testing.T) {
	m := llm.New(llm.Config{
		Info: llm.Info{Name: "it", Provider: "openai", ProviderModel: "m-1"}, BaseURL: "http://127.0.0.1:1/v1", AtOnce: 1, Timeout: time.Minute, HTTP: http.DefaultClient,
		Credentials: func() (llm.Credentials, error) { return llm.Credentials{}, nil }, Admit: admit, Record: func(context.Context, *llm.Reply, time.Time, error) {},
	})
	_, err := collect(t, m, hello())
	var e *llm.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	all := e.Public("it")
	if users := all.Public(); !strings.Contains(all.Message, "127.0.0.1:1") || strings.Contains(users.Message, "127.0.0.1") || !strings.Contains(users.Message, "refused") {
		t.Errorf("operators see %q, users %q", all.Message, users.Message)
	}
}
