package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"
	"github.com/rogpeppe/go-internal/testscript"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/cmd/internal/clitest"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/services/serve"
)

// TestMain makes this test binary the programs that scripts run: pawl itself, an MCP server to work with, and a receiver of webhooks.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pawl": main, "deskmcp": deskMCP, "receiver": receiver})
}

// TestScripts uses pawl as people do: processes, files, exit codes.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PAWL_DATA", filepath.Join(env.WorkDir, "data"))
			env.Setenv("LANG", "C.UTF-8")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else each process waits a second at its end
			return os.Mkdir(filepath.Join(env.WorkDir, "home"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serving": serving, "appears": appears,
		},
	})
}

// serving waits until the process that has the data folder answers: serving [DIR].
func serving(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.Getenv("PAWL_DATA")
	if len(args) == 1 {
		dir = ts.MkAbs(args[0])
	}
	if neg || len(args) > 1 {
		ts.Fatalf("usage: serving [DIR]")
	}
	ts.Check(until("a server of "+dir, func(ctx context.Context) bool {
		info := discover.ReadServerFile(dir)
		if info == nil {
			return false
		}
		conn, err := serve.Dial(info.GRPC, "")
		if err != nil {
			return false
		}
		defer conn.Close()
		answer, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
		return err == nil && answer.GetStatus() == healthv1.HealthCheckResponse_SERVING
	}))
}

// appears waits until a file is there: appears FILE.
func appears(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: appears FILE")
	}
	ts.Check(until(args[0], func(context.Context) bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return !errors.Is(err, fs.ErrNotExist)
	}))
}

// until polls done, because another process sends no signal; it fails after 20 s.
func until(what string, done func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: it never came", what)
		case <-tick.C:
		}
	}
	return nil
}

// deskMCP is an MCP server on standard input and output: `note` appends a line to a file, `hold` returns when something
// is written into the pipe `let`, both in the folder $DESK. A file `schema` there is what `note` takes.
func deskMCP() {
	desk := os.Getenv("DESK")
	takes := `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`
	if raw, err := os.ReadFile(filepath.Join(desk, "schema")); err == nil {
		takes = string(raw)
	}
	s := clitest.NewMCP(
		clitest.MCPTool{
			Name:   "note",
			Schema: takes,
			Call: func(_ context.Context, input map[string]any) (string, error) {
				return "noted", note(filepath.Join(desk, "notes"), fmt.Sprint(input["text"]))
			},
		},
		clitest.MCPTool{
			Name: "hold", Schema: `{"type":"object"}`,
			Call: func(ctx context.Context, _ map[string]any) (string, error) { return "let go", hold(ctx, desk) },
		},
	)
	if err := server.ServeStdio(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func note(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	return errors.Join(err, f.Close())
}

// hold reads the pipe, which blocks until another process writes, unless it is cancelled before.
func hold(ctx context.Context, desk string) error {
	if err := note(filepath.Join(desk, "held"), "held"); err != nil {
		return err
	}
	read := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(filepath.Join(desk, "let"))
		read <- err
	}()
	select {
	case err := <-read:
		return err
	case <-ctx.Done():
		return errors.New("cancelled while holding")
	}
}

// receiver receives the posts of webhooks. It writes its URL into the file `receiver`, and the body of each post into a file named after the event's type.
// While there is a file `down`, it answers 500.
func receiver() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = writeWhole("receiver", []byte("http://"+listener.Addr().String()+"/"))
	}
	if err == nil {
		err = http.Serve(listener, http.HandlerFunc(receive))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func receive(w http.ResponseWriter, r *http.Request) {
	if _, err := os.Stat("down"); err == nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	body, err := io.ReadAll(r.Body)
	var event struct{ Type string }
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	if err == nil {
		err = writeWhole(filepath.Base(event.Type), body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// writeWhole writes a file that appears with its content.
func writeWhole(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
