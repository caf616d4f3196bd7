package mcp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/strictjson"
)

// refusing refuses the first requests that contain round, and passes all others on.
type refusing struct {
	next   http.Handler
	round  string       // a text in the requests of a later round
	status int          // of a refusal; 0: the connection is cut off
	times  atomic.Int32 // how many are still to be refused
	seen   atomic.Int32 // requests with round
}

func (s *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if strings.Contains(string(body), s.round) {
		if s.seen.Add(1); s.times.Add(-1) >= 0 {
			if s.status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(s.status)
			return
		}
	}
	s.next.ServeHTTP(w, r)
}

// A refused later round of a call is repeated like the first one, with the same answers. If it stays refused, the error says
// whether that round may have run.
func TestLaterRoundsAreMadeAgain(t *testing.T) {
	const once, ever = 1, 100
	const first, second = `"requestState":"[]"`, `"requestState":"[[`
	for _, tt := range []struct {
		name, tool, round string
		status            int
		times             int32
		again             bool
		seen              int32
		succeeds          bool
		mayHaveRun        bool // of the error, if it does not succeed
	}{
		{"busy for a moment", "form", first, 429, once, true, 2, true, false},
		{"busy for long", "form", first, 429, ever, true, 3, false, false},
		{"busy after it had answers", "form2", second, 429, ever, true, 3, false, true},
		{"not wanted again", "form", first, 429, once, false, 1, false, false},
		{"may have run", "form", first, 503, once, true, 2, true, false},
		{"may have run, for long", "form", first, 503, ever, true, 3, false, true},
		{"cut off", "form", first, 0, once, true, 2, true, false},
		{"no login", "form", first, 401, ever, true, 1, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			front := &refusing{next: mcptest.Web(mcptest.Modern), round: tt.round, status: tt.status}
			front.times.Store(tt.times)
			c := dialServer(t, newConnector(t, Config{}), webServer(serveWeb(t, front)))
			var mu sync.Mutex
			var asked []*Error
			raw, err := c.CallTool(t.Context(), Call{Name: tt.tool, Arguments: strictjson.Checked(`{}`), Ask: says,
				Again: func(_ context.Context, attempt int, e *Error) bool {
					mu.Lock()
					defer mu.Unlock()
					asked = append(asked, e)
					return tt.again && e.Transient && attempt < 3
				}})
			if front.seen.Load() != tt.seen {
				t.Errorf("the round was made %d times, want %d", front.seen.Load(), tt.seen)
			}
			if tt.status == 429 && (len(asked) == 0 || asked[0].MayHaveRun || asked[0].RetryAfter.Seconds() != 7) {
				t.Errorf("asked whether to go on after %+v", asked)
			}
			if tt.succeeds {
				if err != nil || !strings.Contains(string(raw), "Ada") {
					t.Errorf("result = %s, %v", raw, err)
				}
				return
			}
			if e := As(err); err == nil || e.MayHaveRun != tt.mayHaveRun || !e.Begun || e.Ended {
				t.Errorf("ended with %+v", e)
			}
		})
	}
}
