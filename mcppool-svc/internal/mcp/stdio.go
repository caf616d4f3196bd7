package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/mcppool-svc/internal/process"
	"pawl.dev/mcppool-svc/internal/registry"
)

const (
	// stderrTail is how many bytes of a child's stderr an error message holds: messages travel in HTTP headers.
	stderrTail = 1 << 10
	// stallLimit is how long a child may leave its stdin unread while there is more to write.
	stallLimit = 30 * time.Second
	// exitWait is how long to wait for the exit status of a child that closed its stdout.
	exitWait = time.Second
)

// stdio is the transport to a child process: one JSON-RPC message per line.
type stdio struct {
	in     *jsonrpc.LineReader
	out    *jsonrpc.LineWriter
	child  *process.Process
	client *client
}

// connectStdio starts a child and connects to it.
func (c *Connector) connectStdio(ctx context.Context, s *registry.Server, user string, e era) (*client, error) {
	env, err := c.expand(s, s.Stdio.Env)
	if err != nil {
		return nil, err
	}
	account, err := process.FindAccount(s.Stdio.User)
	if err != nil {
		return nil, Errorf(Misconfigured, "MCP server %s: %w", s.ID, err)
	}
	child, err := c.launcher.Start(process.Spec{
		Command: s.Stdio.Command, Args: s.Stdio.Args, Dir: s.Stdio.Dir, Account: account,
		Env: process.Environ(c.cfg.Environ, env, account), Limits: c.cfg.ChildLimits,
	})
	if err != nil {
		return nil, Errorf(Unavailable, "MCP server %s cannot be started: %w", s.ID, err)
	}
	conn := c.newClient(s, e)
	conn.user = user
	conn.hide = newRedactor(env).Replace
	wire := &stdio{child: child, client: conn}
	wire.in = jsonrpc.NewLineReader(child.Stdout, conn.limit, func(m jsonrpc.Message, text []byte) { conn.receive(m, text, nil) })
	wire.in.SetAdmit(conn.admitter(conn.life))
	wire.out = jsonrpc.NewLineWriter(child.Stdin, stallLimit, wire.writeFailed)
	conn.wire, conn.oneStream = wire, true
	conn.background(wire.read)
	if err := conn.handshake(ctx); err != nil {
		failure := *As(err)
		closing := conn.Close()
		failure.Stderr = conn.Stderr() // complete, now that the child has ended
		return nil, errors.Join(&failure, closing)
	}
	return conn, nil
}

// start implements transport. If the pipe is closed, start delivers nothing: the connection ends, and roundTrip notices that.
func (t *stdio) start(x *pendingRequest) {
	t.client.await(x)
	x.sent.Store(true)
	if err := t.out.Write(x.id, x.text); err != nil {
		x.sent.Store(false)
		if errors.Is(err, jsonrpc.ErrNotRead) {
			t.client.take(x.id)
			x.deliver(response{err: Errorf(Unavailable, "%w", err)})
		}
	}
}

func (t *stdio) post(_ context.Context, message []byte) error {
	return t.out.Write(0, append(message, '\n'))
}

func (t *stdio) close() {
	_ = t.out.Close()
	t.child.Close()
}

// writeFailed ends the connection after the child did not read, or closed its stdin.
func (t *stdio) writeFailed(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.client.fail(&Error{Kind: Unavailable, MayHaveRun: true, Lost: true,
			Message: fmt.Sprintf("MCP server %s does not read its stdin", t.client.server.ID)})
	}
	t.child.Close() // this ends the child's output too
}

// read reads the child's output until it ends, and then ends the connection.
func (t *stdio) read() {
	err := t.in.Read()
	if t.client.isDone() {
		return
	}
	t.client.fail(t.closeReason(err))
	t.child.Close() // a child whose stdout has ended is of no use
}

// closeReason returns the error that explains why a child's output ended.
func (t *stdio) closeReason(err error) *Error {
	var e *Error
	switch {
	case errors.Is(err, jsonrpc.ErrEndless):
		e = endlessError(t.client.limit)
	case errors.Is(err, jsonrpc.ErrNoise):
		e = &Error{Kind: Protocol, MayHaveRun: true, Lost: true, Message: "the program does not speak MCP on its stdout: it wrote " + t.in.Noise()}
	}
	if e != nil {
		e.Message = fmt.Sprintf("MCP server %s: %s", t.client.server.ID, t.client.hide(e.Message))
		return e
	}
	how := "closed its stdout"
	select {
	case <-t.child.Exited():
		how = "ended (" + t.child.Status() + ")"
	case <-time.After(exitWait):
	}
	return &Error{Kind: Unavailable, Lost: true,
		Message: fmt.Sprintf("MCP server %s: the program %s %s%s", t.client.server.ID, t.client.server.Stdio.Command, how, t.lastOutput())}
}

// lastOutput returns the child's last output for an error message. It returns "" for a shared connection once the handshake is done, because the
// output may contain data of other users.
func (t *stdio) lastOutput() string {
	if t.client.shared && t.client.info.Protocol != "" {
		return ""
	}
	var text string
	if noise := t.in.Noise(); noise != "" {
		text += "; it wrote to stdout: " + noise
	}
	if tail := t.child.Stderr(stderrTail); tail != "" {
		text += "; its stderr ends with: " + tail
	}
	return t.client.hide(text)
}
