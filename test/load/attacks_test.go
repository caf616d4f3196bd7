package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/test/rig"
)

const (
	// announced is the length of the bodies and messages that never arrive whole, and sent is what is sent of them.
	announced = 4_000_000
	sent      = 3_900_000
	// chunk is what an attacker sends at once.
	chunk = 16 << 10

	bodies  = 300
	streams = 60
	readers = 20
	slow    = 2000
	// replaced is how many slow connections are replaced at most, ten times a second.
	replaced = 100
)

// attackVariable makes this test binary an attacker, a process of its own, so that what the attacker spends is not the neighbour's. Its value is a JSON aim.
const attackVariable = "PAWL_LOAD_ATTACK"

// aim is what an attacker knows: addresses, a plain user's key, a task whose events are large, and which attack it makes for how long.
type aim struct {
	HTTP, GRPC, Key, Task, Attack string
	Hold                          time.Duration
}

// attack runs until its context ends.
type attack struct {
	name string
	run  func(context.Context) error
}

// attacks returns the attacks of issue 13 (shown by 2) and on the OpenAI API, each without a key and with the key of a plain user.
func (a aim) attacks() []attack {
	callTool := mcppoolv1.McpPoolService_CallTool_FullMethodName
	return []attack{
		{"bodies without a key", each(bodies, a.HTTP, func(ctx context.Context, conn net.Conn) { unfinishedBody(conn, "") })},
		{"bodies", each(bodies, a.HTTP, func(ctx context.Context, conn net.Conn) { unfinishedBody(conn, a.Key) })},
		{"messages without a key", each(streams, a.GRPC, func(ctx context.Context, conn net.Conn) { unfinishedMessages(conn, "", callTool, 1) })},
		{"messages", each(streams, a.GRPC, func(ctx context.Context, conn net.Conn) { unfinishedMessages(conn, a.Key, callTool, 1) })},
		{"messages on few connections", each(2, a.GRPC, func(ctx context.Context, conn net.Conn) { unfinishedMessages(conn, a.Key, callTool, 500) })},
		{"second messages", each(2, a.GRPC, func(ctx context.Context, conn net.Conn) {
			unfinishedMessages(conn, a.Key, mcppoolv1.McpPoolService_CallTools_FullMethodName, 250)
		})},
		{"event streams over REST", each(readers, a.HTTP, func(ctx context.Context, conn net.Conn) {
			_, _ = fmt.Fprintf(conn, "GET /v1/tasks/%s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", a.Task, a.Key)
			<-ctx.Done()
		})},
		{"event streams over gRPC", each(readers, a.GRPC, func(ctx context.Context, conn net.Conn) {
			watchUnread(conn, a.Key, a.Task)
			<-ctx.Done()
		})},
		{"arguments of 10 MB", each(readers, a.HTTP, func(ctx context.Context, conn net.Conn) {
			_, _ = io.WriteString(conn, answerRequest(a.Key, "chat/completions", `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"`+
				strings.Repeat("x", 10<<20)+`"}}]}]}`))
		})},
		{"forged responses", each(2, a.HTTP, func(ctx context.Context, conn net.Conn) { forgeResponses(ctx, conn, a) })},
		{"slow headers", trickle(a.HTTP, "GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nX: ")},
		{"slow headers over gRPC", trickle(a.GRPC, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
		{"slow bodies without a key", trickle(a.HTTP, "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n")},
		{"slow bodies", trickle(a.HTTP, "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer "+a.Key+
			"\r\nContent-Length: 5000\r\n\r\n")},
		{"connections without a byte", trickle(a.HTTP, "")},
	}
}

// handshakes returns attacks by connections whose TLS handshake does not end.
func (a aim) handshakes() []attack {
	hello := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
	return []attack{{"handshakes over REST", trickle(a.HTTP, hello)}, {"handshakes over gRPC", trickle(a.GRPC, hello)}}
}

// runAttack makes the attack that a JSON aim names.
func runAttack(value string) error {
	var a aim
	if err := json.Unmarshal([]byte(value), &a); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.Hold)
	defer cancel()
	all := append(a.attacks(), a.handshakes()...)
	i := slices.IndexFunc(all, func(k attack) bool { return k.name == a.Attack })
	if err, timeout := all[i].run(ctx), net.Error(nil); err != nil && (!errors.As(err, &timeout) || !timeout.Timeout()) { // its dials end with it
		return err
	}
	return nil
}

func TestAttacks(t *testing.T) {
	s := newSite(t, rig.Options{Flags: []string{"--max-steps", "1000"}})
	s.withstand(t, s.longTask(t), aim{}.attacks())
}

// Connections whose TLS handshake does not end.
func TestSlowHandshakes(t *testing.T) {
	s := newSite(t, rig.Options{Certs: makeCerts(t)})
	s.withstand(t, "", aim{}.handshakes())
}

// each makes n connections to an address, which run sends on until the attack ends.
func each(n int, addr string, run func(context.Context, net.Conn)) func(context.Context) error {
	return func(ctx context.Context) error {
		all := errgroup.Group{}
		for range n {
			all.Go(func() error {
				conn, err := dial(ctx, addr)
				if err != nil {
					return err
				}
				defer func() { _ = conn.Close() }()
				run(ctx, conn)
				_, _ = io.Copy(io.Discard, conn) // until the server closes it, or the attack ends
				return nil
			})
		}
		return all.Wait()
	}
}

// attacker is the address of the attacks. The neighbour has another one, because connections without a credential are bounded by address.
var attacker = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}

// dial connects until ctx ends.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{LocalAddr: attacker}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	end, _ := ctx.Deadline()
	return conn, conn.SetDeadline(end)
}

// unfinishedBody sends a request whose body does not arrive whole. Errors mean that the server does not read it.
func unfinishedBody(conn net.Conn, key string) {
	headers := "POST /v1/mcpServers/t/tools:call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
	if key != "" {
		headers += "Authorization: Bearer " + key + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, headers+"\r\n", announced); err != nil {
		return
	}
	data := []byte(strings.Repeat(" ", chunk))
	for n := 0; n < sent; n += chunk {
		if _, err := conn.Write(data); err != nil {
			return
		}
	}
}

// answerRequest returns a request of the OpenAI API.
func answerRequest(key, path, body string) string {
	return fmt.Sprintf("POST /openai/v1/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", path, key, len(body), body)
}

// forgeResponses continues and approves responses whose ids are forged, one after the other, until the attack ends.
func forgeResponses(ctx context.Context, conn net.Conn, a aim) {
	answers := bufio.NewReader(conn)
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("%032x", n)
		body := `{"model":"m","input":"a","x":[[{}]],"previous_response_id":"resp_f` + id + `_0"}`
		if n%2 == 1 {
			body = `{"input":[{"type":"mcp_approval_response","approve":true,"approval_request_id":"mcpr_` + id + strings.Repeat("_", 100_000) + `"}]}`
		}
		if _, err := io.WriteString(conn, answerRequest(a.Key, "responses", body)); err != nil {
			return
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode < 400 {
			panic("a forged id was accepted: " + answer.Status) // it ends the attacker, and so fails the test
		}
	}
}

// trickle keeps many connections that send a beginning, and then a byte at a time. A connection that the server closes is replaced, at most replaced of them
// ten times a second: where the server refuses at once, the attack would else take a core of this machine for itself.
func trickle(addr, beginning string) func(context.Context) error {
	return func(ctx context.Context) error {
		conns := make([]net.Conn, slow)
		defer func() {
			for _, conn := range conns {
				if conn != nil {
					_ = conn.Close()
				}
			}
		}()
		for first := true; ctx.Err() == nil; first = false {
			left := replaced
			for i, conn := range conns {
				if conn != nil {
					if _, err := conn.Write([]byte{'1'}); err == nil || beginning == "" {
						continue
					}
					_ = conn.Close()
					conns[i] = nil
				}
				if left--; left < 0 && !first {
					continue
				}
				conn, err := dial(ctx, addr)
				if err != nil {
					return fmt.Errorf("connection %d: %w", i, err)
				}
				_, _ = io.WriteString(conn, beginning)
				conns[i] = conn
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		return nil
	}
}

// longTask runs a task whose event stream has about 50 MB, and returns its id.
func (s *site) longTask(t *testing.T) string {
	t.Helper()
	const items = 100
	client := rig.NewGRPC(rig.Dial(t, s.grpc, s.ann))
	task, err := client.Create(t.Context(), &executorv1.CreateTaskRequest{
		Goal: "much", McpIds: []string{"t"}, AutoExecute: proto.Bool(true), InputsJson: fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 250_000)),
		Playbook: "inputs: {text: {type: string}}\nsteps:\n" + strings.Repeat("- {tool: t/echo, input: {text: \"${inputs.text}\"}}\n", items) + "answer: done\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	if err := client.Watch(t.Context(), task.GetId(), 0, func(e *executorv1.ExecutorEvent) bool {
		size += proto.Size(e)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("the task's events have %d bytes; memory %d MB", size, s.memory(t)>>20)
	if size < 45_000_000 {
		t.Fatal("that is too little")
	}
	return task.GetId()
}
