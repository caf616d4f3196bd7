package mcp

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

// Status 429 is transient, proves that no tool ran, and carries Retry-After.
func TestTooManyRequests(t *testing.T) {
	var busy atomic.Bool
	behind := server.NewStreamableHTTPServer(newMCP(t))
	url := serveWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy.Load() && r.Method == http.MethodPost {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		behind.ServeHTTP(w, r)
	}))
	c := dialServer(t, newConnector(t, Config{}), webServer(url))
	busy.Store(true)
	_, err := callTool(t, c, "echo", `{"text":"x"}`)
	e := As(err)
	if !e.Transient || e.MayHaveRun || e.RetryAfter != 7*time.Second {
		t.Errorf("got %+v", e)
	}
}
