package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pawl.dev/planner-svc/internal/llm"
)

// transport answers with a body.
type transport func(ctx context.Context) io.Reader

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(t(r.Context()))}, nil
}

// quiet says nothing until it is given up.
type quiet struct{ done <-chan struct{} }

func (q quiet) Read([]byte) (int, error) {
	<-q.done
	return 0, context.Canceled
}

func get(t *testing.T, b bounded) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://model.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := b.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

func TestBounds(t *testing.T) {
	long := func(context.Context) io.Reader { return strings.NewReader(strings.Repeat("x", 101)) }
	if err := get(t, bounded{transport(long), 100, time.Minute}); !errors.Is(err, errTooMuch) {
		t.Errorf("a long answer: %v", err)
	}
	if err := get(t, bounded{transport(long), 102, time.Minute}); err != nil {
		t.Errorf("one that fits: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context) io.Reader { return quiet{ctx.Done()} }
		if err := get(t, bounded{transport(silent), 100, time.Minute}); !errors.Is(err, errSilence) {
			t.Errorf("silence: %v", err)
		}
	})
}

// A stream is left as it is, whatever its type, also where it begins with an empty line; nothing else passes for one.
func TestOpening(t *testing.T) {
	for _, tt := range []struct {
		kind   string
		status int
		pieces []string
		says   string
	}{
		{"text/event-stream", 200, []string{"\n", "data: {}"}, ""},
		{"", 200, []string{": hello", "{"}, ""},
		{"text/plain", 200, []string{"event: x", "<"}, ""},
		{"application/json", 500, []string{`{"error":1}`}, ""},
		{"", 200, []string{"\r\n ", `[1]`}, "something of no type came instead of a stream of events: [1]"},
		{"text/event-stream", 200, []string{"<p>\a\u202e" + strings.Repeat("é", 300)}, "text/event-stream came instead of a stream of events: <p> " + strings.Repeat("é", 116) + " …"},
	} {
		o := newOpening(&http.Response{StatusCode: tt.status, Header: http.Header{"Content-Type": {tt.kind}}})
		var err error
		for _, p := range tt.pieces {
			err = errors.Join(err, o.look([]byte(p)))
		}
		if (err == nil) != (tt.says == "") || err != nil && err.Error() != tt.says {
			t.Errorf("%q: %v, want %q", tt.pieces, err, tt.says)
		}
	}
}

func TestFailed(t *testing.T) {
	err := Failed(t.Context(), &llm.Error{Class: llm.Auth, Message: "wrong: sk-1234"}, "sk-1234")
	var f *llm.Error
	if !errors.As(err, &f) || f.Class != llm.Auth || f.Message != "wrong: ***" {
		t.Errorf("%+v", f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Failed(ctx, errSilence, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}
