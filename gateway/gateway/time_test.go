package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pawl.dev/gateway/gateway"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/inproc"
)

// pipes is a listener of in-memory connections, whose reads and writes block in virtual time.
type pipes struct {
	conns   chan net.Conn
	done    chan struct{}
	stop    func()        // makes the gateway that listens stop
	stopped chan struct{} // it has
}

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), done: make(chan struct{}), stopped: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// dial connects and sends a GET.
func (p *pipes) dial(t *testing.T, path, accept string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	p.conns <- server
	if _, err := io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAccept: "+accept+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return client
}

// inTime runs a gateway over one fake executor in virtual time.
func inTime(t *testing.T, test func(t *testing.T, p *pipes, f *fakeExecutor)) {
	synctest.Test(t, func(t *testing.T) {
		conn, f := inproc.New(nil, nil), &fakeExecutor{}
		executorv1.RegisterExecutorServiceServer(faking{conn, &journal{}}, f)
		g, err := gateway.New(gateway.Config{}, gateway.Deps{Executor: conn, Pool: conn, Planner: conn})
		if err != nil {
			t.Fatal(err)
		}
		p := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		p.stop = cancel
		go func() {
			defer close(p.stopped)
			if err := g.Serve(ctx, p); err != nil {
				t.Errorf("serve: %v", err)
			}
		}()
		defer func() { cancel(); <-p.stopped }()
		test(t, p, f)
	})
}

func silent(_ *executorv1.WatchTaskRequest, s eventStream) error {
	<-s.Context().Done()
	return s.Context().Err()
}

// TestTimesOfASilentStream: open after 1 s, a comment every 15 s.
func TestTimesOfASilentStream(t *testing.T) {
	inTime(t, func(t *testing.T, p *pipes, f *fakeExecutor) {
		f.WatchTaskFn = silent
		begin := time.Now()
		client := p.dial(t, events, "text/event-stream")
		defer func() { _ = client.Close() }()
		want := map[string][]time.Duration{": ok": {time.Second}, ": keep-alive": {15 * time.Second, 30 * time.Second, 45 * time.Second}}
		lines := bufio.NewScanner(client)
		for len(want) > 0 && lines.Scan() {
			line := lines.Text()
			if !strings.HasPrefix(line, ":") {
				continue
			}
			if got := time.Since(begin); len(want[line]) == 0 || got != want[line][0] {
				t.Fatalf("%q after %s, want one of %v", line, got, want)
			}
			if want[line] = want[line][1:]; len(want[line]) == 0 {
				delete(want, line)
			}
		}
		if len(want) > 0 {
			t.Errorf("the stream ended before %v: %v", want, lines.Err())
		}
	})
}

// TestStopTellsLineReaders: a stream that is not open yet has a status, an open one a last line.
func TestStopTellsLineReaders(t *testing.T) {
	for name, opened := range map[string]bool{"not open yet": false, "open": true} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, p *pipes, f *fakeExecutor) {
				f.WatchTaskFn = silent
				client := p.dial(t, events, "application/x-ndjson")
				defer func() { _ = client.Close() }()
				reader := bufio.NewReader(client)
				if opened {
					if status, err := reader.ReadString('\n'); err != nil || status != "HTTP/1.1 200 OK\r\n" {
						t.Fatalf("status %q, %v", status, err)
					}
				}
				synctest.Wait()
				p.stop()
				rest, err := io.ReadAll(reader)
				if err != nil {
					t.Fatal(err)
				}
				want := "HTTP/1.1 503 "
				if opened {
					want = `{"error":{"type":"https://pawl.dev/problems/SHUTTING_DOWN"`
				}
				if !strings.Contains(string(rest), want) {
					t.Errorf("got %s, want %s", rest, want)
				}
			})
		})
	}
}

// TestSlowClient: one that does not read for 30 s has its call ended.
func TestSlowClient(t *testing.T) {
	inTime(t, func(t *testing.T, p *pipes, f *fakeExecutor) {
		ended := make(chan time.Time, 1)
		f.WatchTaskFn = func(_ *executorv1.WatchTaskRequest, s eventStream) error {
			for seq := uint64(1); ; seq++ {
				if err := s.Send(event(seq, executorv1.EventType_EVENT_TYPE_TEXT_ADD, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING)); err != nil {
					ended <- time.Now()
					return err
				}
			}
		}
		begin := time.Now()
		client := p.dial(t, events, "application/x-ndjson")
		defer func() { _ = client.Close() }()
		if got := (<-ended).Sub(begin); got != 30*time.Second {
			t.Errorf("the call of a client that does not read ended after %s, want 30 s", got)
		}
	})
}

// TestStopDoesNotWaitForEver: requests that do not end are cut off after 10 s.
func TestStopDoesNotWaitForEver(t *testing.T) {
	inTime(t, func(t *testing.T, p *pipes, f *fakeExecutor) {
		entered, release := make(chan struct{}), make(chan struct{})
		f.GetTaskFn = func(*executorv1.GetTaskRequest) (*executorv1.Task, error) {
			close(entered)
			<-release
			return &executorv1.Task{}, nil
		}
		client := p.dial(t, "/v1/tasks/"+taskID, "*/*")
		defer func() { _ = client.Close() }()
		<-entered
		begin := time.Now()
		p.stop()
		<-p.stopped
		if got := time.Since(begin); got != 10*time.Second {
			t.Errorf("the stop took %s, want 10 s", got)
		}
		close(release)
	})
}
