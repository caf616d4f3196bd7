package test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/modelserver/modeltest"
	"pawl.dev/test/rig"
)

// cutter is a proxy that cuts connections.
type cutter struct {
	lis  net.Listener
	to   string
	cuts atomic.Int32
}

// budgets are the numbers of bytes from the server after which the cutter cuts a connection, in turn. The first of them is less than a response, so that a client does not
// learn the outcome of its request.
var budgets = []int64{10, 3000, 4000, 3500}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	c := &cutter{lis: lis, to: to}
	go func() {
		for {
			client, err := lis.Accept()
			if err != nil {
				return
			}
			go c.serve(client)
		}
	}()
	return c
}

func (c *cutter) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() { _, _ = io.Copy(server, client) }()
	n := c.cuts.Add(1)
	_, _ = io.CopyN(client, server, budgets[int(n)%len(budgets)])
}

// A Node program over REST and over gRPC, a Python program and pawl chat hold a conversation with an agent while their connections are cut again and again, in the middle of a reply
// too: nothing is missed or repeated (B10, B18). Then the server is killed in the middle of a reply, which begins again.
func TestChatClients(t *testing.T) {
	modules := filepath.Dir(filepath.Dir(rig.NPM(t, ".", "@grpc/grpc-js")))
	if _, err := exec.LookPath("python3"); err != nil && os.Getenv("PAWL_TEST_NPM") != "required" {
		t.Skip("python3 is not installed")
	}
	story := strings.Repeat("A pawl 棘爪 holds the wheel. ", 40)
	hold := strings.Repeat("Hold on, please. ", 50)
	held := make(chan struct{}, 1) // full: the model was told to hold
	model := modeltest.New(&modeltest.Script{Model: "m", Key: "sk", Play: func(r *modeltest.Request) *modeltest.Turn {
		all := strings.Join(r.Texts, "\n")
		newest := all[strings.LastIndex(all, "The newest message"):]
		switch {
		case strings.HasPrefix(r.Texts[len(r.Texts)-1], "Call all tools"):
			return &modeltest.Turn{Text: "none"}
		case strings.Contains(newest, "story"):
			return &modeltest.Turn{Text: story + "End.", Pause: modeltest.Seconds(5 * time.Millisecond)}
		case strings.Contains(newest, "hold"):
			select {
			case held <- struct{}{}:
				return &modeltest.Turn{Text: hold, Pause: modeltest.Seconds(100 * time.Millisecond)} // the server is killed meanwhile
			default:
				return &modeltest.Turn{Text: "Held."}
			}
		}
		return &modeltest.Turn{Text: "You are welcome."}
	}}, nil)
	provider := httptest.NewServer(model)
	t.Cleanup(provider.Close)
	t.Setenv("OPENAI_API_KEY", "sk")
	t.Setenv("OPENAI_BASE_URL", provider.URL+"/v1")
	for name, program := range map[string][]string{
		"node": {"node", "../clients/node/chat.mjs"}, "node-grpc": {"node", "../clients/node/chat-grpc.mjs"}, "python": {"python3", "../clients/python/chat.py"},
		"pawl": {binaries.Pawl, "chat", "--data", t.TempDir(), "--no-workspace", "--server"},
	} {
		t.Run(name, func(t *testing.T) {
			select {
			case <-held: // by the program before
			default:
			}
			target := rig.Binary(t, binaries, rig.Options{Flags: []string{"--model", "openai:m", "--no-workspace"}})
			if _, err := rig.NewGRPC(target.Executor).CreateAgent(t.Context(), &executorv1.CreateAgentRequest{AgentId: "helper", Agent: &executorv1.Agent{}}); err != nil {
				t.Fatal(err)
			}
			scheme, addr := "http://", strings.TrimPrefix(target.HTTP, "http://")
			if name == "node-grpc" || name == "pawl" {
				scheme, addr = "", target.Executor.Target()
			}
			agent, prefix := []string{"helper"}, ""
			if name == "pawl" {
				agent, prefix = []string{"--agent", "helper"}, "helper: "
			}
			proxy := newCutter(t, addr)
			ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
			defer cancel()
			cmd := exec.CommandContext(ctx, program[0], append(append(program[1:], scheme+proxy.lis.Addr().String()), agent...)...)
			cmd.Env = append(os.Environ(), "PAWL_NODE_MODULES="+modules)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			got := bufio.NewReader(out)
			says := func(line string, wants ...string) {
				t.Helper()
				if _, err := io.WriteString(in, line+"\n"); err != nil {
					t.Fatal(err)
				}
				for _, want := range wants {
					if text, err := got.ReadString('\n'); text != want+"\n" {
						t.Fatalf("%q instead of %q, %v\n%s", text, want, err, errs.String())
					}
				}
			}
			says("Tell me a story", prefix+story+"End.")
			if n := proxy.cuts.Load(); n < 3 {
				t.Errorf("only %d connections", n)
			}
			says("Thanks", prefix+"You are welcome.")
			says("Now hold")
			if piece, err := got.Peek(len(prefix) + 1); err != nil || string(piece) != prefix+"H" {
				t.Fatalf("%q, %v\n%s", piece, err, errs.String())
			}
			target.Restart(t, "pawl")
			rest, err := got.ReadString('\n')
			if again, _ := got.ReadString('\n'); err != nil || !strings.HasPrefix(prefix+hold, strings.TrimSuffix(rest, "\n")) || again != prefix+"Held.\n" {
				t.Errorf("after the restart: %q %q, %v\n%s", rest, again, err, errs.String())
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			if more, err := io.ReadAll(got); err != nil || len(more) > 0 {
				t.Errorf("more: %q, %v", more, err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v\n%s", err, errs.String())
			}
		})
	}
}
