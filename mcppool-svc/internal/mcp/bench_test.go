//go:build unix

package mcp

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

// BenchmarkCallTool measures the CPU time of a short call in this process. Over HTTP and with a built-in server that includes the
// server's; over stdio the server is another process.
func BenchmarkCallTool(b *testing.B) {
	builtins := map[string]OpenBuiltin{"own": func(*registry.Builtin) (*server.MCPServer, io.Closer, error) {
		return newMCP(b), io.NopCloser(nil), nil
	}}
	modernWeb := httptest.NewServer(server.NewStreamableHTTPServer(newMCP(b)))
	defer modernWeb.Close()
	legacyWeb := httptest.NewServer(handshaking(server.NewStreamableHTTPServer(newMCP(b))))
	defer legacyWeb.Close()
	connector := NewConnector(Config{Environ: os.Environ(), Builtins: builtins}, slog.New(slog.DiscardHandler))
	defer connector.Close()
	for name, s := range map[string]*registry.Server{
		"stdio":        {ID: "s", Stdio: mcptest.Stdio(mcptest.Good)},
		"stdio-modern": {ID: "s", Stdio: mcptest.Stdio(mcptest.Modern)},
		"http":         webServer(legacyWeb.URL),
		"http-modern":  webServer(modernWeb.URL),
		"builtin":      {ID: "s", Builtin: &registry.Builtin{Name: "own"}},
	} {
		b.Run(name, func(b *testing.B) {
			c, err := connector.Connect(b.Context(), s, "ann")
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			call := Call{
				Name: "echo", Arguments: strictjson.Checked(`{"text":"hello"}`), Notify: func(Notification) {},
				Meta: map[string]string{"pawl.dev/call-id": "t/1", "pawl.dev/idempotency-key": "k"},
			}
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				if _, err := c.CallTool(b.Context(), call); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
		})
	}
}

// cpuTime is the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
