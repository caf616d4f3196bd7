package models

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/planner-svc/internal/llm"
)

// transport answers the requests to providers.
type transport func(r *http.Request) *http.Response

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response := t(r)
	if response == nil {
		return nil, context.Cause(r.Context())
	}
	response.Request = r
	return response, nil
}

// says is an answer of 10 tokens' prompt.
func says(text string) *http.Response {
	return stream(`data: {"choices":[{"delta":{"content":"` + text + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10}}`)
}

func stream(body string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

func fails(status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}
}

// bookOf reads models that t answers for. Each line describes one, which has its name as its address, and no retries.
func bookOf(t *testing.T, to transport, lines ...string) *Book {
	t.Helper()
	text := "models:\n"
	for _, line := range lines {
		name, _, _ := strings.Cut(line, ",")
		text += fmt.Sprintf("- {provider: openai, model: m, retries: 0, baseUrl: 'http://%s', name: %s}\n", name, line)
	}
	b, err := open(t, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.web.Transport = to
	return b
}

func as(ctx context.Context, user string) context.Context {
	return identity.NewContext(ctx, identity.Principal{Sub: user})
}

// One user's requests are limited, those included that wait; another user's are not refused for them.
func TestLimitPerUser(t *testing.T) {
	running := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	b := bookOf(t, func(r *http.Request) *http.Response {
		select {
		case running <- struct{}{}:
		default:
			// While cancel reaches one request after the other, the slot of the first may go to another.
			if ctx.Err() == nil {
				t.Error("a model is asked for a caller who has left")
			}
		}
		<-r.Context().Done()
		return nil
	}, "it, atOnce: 1")
	b.MaxPerUser = 3
	n := b.List()[0]
	ended := make(chan error)
	for range b.MaxPerUser + 1 {
		go func() {
			_, err := n.Generate(as(ctx, "ann"), &llm.Request{}, nil)
			ended <- err
		}()
	}
	<-running
	if e := errs.From(<-ended); e.Code != codes.ResourceExhausted || e.Reason != commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED {
		t.Errorf("one too many: %v", e)
	}
	late, stop := context.WithCancel(t.Context())
	stop()
	if _, err := n.Generate(as(late, "bob"), &llm.Request{}, nil); errs.From(err).Code != codes.Canceled {
		t.Errorf("another user: %v", err)
	}
	cancel()
	for range b.MaxPerUser {
		<-ended
	}
	if len(b.busy) != 0 {
		t.Errorf("still counted: %v", b.busy)
	}
}
