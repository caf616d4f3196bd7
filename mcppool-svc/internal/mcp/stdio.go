package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/process"
	"pawl.dev/mcppool-svc/internal/registry"
)

const (
	// stderrTail is how much of a child's stderr an error message carries: messages travel in HTTP headers.
	stderrTail = 1 << 10
	// lastWords is how long the reason for a closed stdout is waited for.
	lastWords = time.Second
)

// connectStdio starts a child and speaks to it.
func (c *Connector) connectStdio(ctx context.Context, s *registry.Server, e era) (*client, error) {
	env, err := c.expand(s, s.Stdio.Env)
	if err != nil {
		return nil, err
	}
	child, err := c.launcher.Start(process.Spec{
		Command: s.Stdio.Command, Args: s.Stdio.Args, Dir: s.Stdio.Dir,
		Env: process.Environ(c.cfg.Environ, env), Limits: c.cfg.ChildLimits,
	})
	if err != nil {
		return nil, Errorf(Unavailable, "MCP server %s cannot be started: %w", s.ID, err)
	}
	conn := c.overStdio(child, s, e)
	hide := literal(env)
	conn.hide = hide.Replace
	go conn.follow(child)
	if err := c.handshake(ctx, conn); err != nil {
		failure := *As(err)
		closing := conn.Close()
		failure.Stderr = conn.Stderr() // whole, now that the child is gone
		return nil, errors.Join(&failure, closing)
	}
	return conn, nil
}

// overStdio puts the layers together: mcp-go over bounded lines over the child.
func (c *Connector) overStdio(child *process.Process, s *registry.Server, e era) *client {
	in := newLineReader(child.Stdout, c.cfg.MaxMessage)
	var conn *client
	out := newLineWriter(child.Stdin, stallLimit, func(err error) {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			conn.fail(&Error{Kind: Unavailable, Sent: true, Lost: true,
				Message: fmt.Sprintf("MCP server %s does not read its stdin", s.ID)})
		}
		child.Close() // mcp-go notices a broken connection at the other end alone
	})
	pipe := newLines(in, out)
	t := &tap{
		Interface: pipe, blind: true, gone: in.eof, judge: in.judge,
		undelivered: func(id mcp.RequestId) bool { return out.undelivered(beginning(id)) },
	}
	conn = newClient(t, t, e, c.log, c.options(s, e)...)
	conn.reply = func(_ context.Context, response *transport.JSONRPCResponse) error {
		text, err := json.Marshal(response)
		if err == nil {
			_, err = out.Write(append(text, '\n'))
		}
		return err
	}
	conn.of(s)
	conn.roots, conn.shared, conn.lines, conn.pipe = s.Roots, s.Isolation == registry.Shared, in, pipe
	conn.child = child
	conn.said = func() string { return conn.testimony(child) }
	conn.release = child.Close
	conn.obituary = func() *Error { return conn.stdioObituary(s, child) }
	return conn
}

// beginning is how the line of a request begins.
func beginning(id mcp.RequestId) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%v,`, id.Value())
}

// follow marks the connection as lost when the child's output ends.
func (c *client) follow(child *process.Process) {
	select {
	case <-c.lines.eof:
	case <-c.done:
		return
	}
	c.fail(c.obituary())
	child.Close() // a child that closed its stdout is of no use
}

// stdioObituary says why a child's output ended.
func (c *client) stdioObituary(s *registry.Server, child *process.Process) *Error {
	if err := c.Err(); err != nil {
		return As(err)
	}
	var known *Error
	if errors.As(c.lines.Err(), &known) {
		e := *known
		e.Message = fmt.Sprintf("MCP server %s: %s", s.ID, c.hide(e.Message))
		return &e
	}
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	how := "closed its stdout"
	select {
	case <-child.Exited():
		how = "ended (" + child.Status() + ")"
	case <-timer.C:
	}
	return &Error{Kind: Unavailable, Lost: true,
		Message: fmt.Sprintf("MCP server %s: the program %s %s%s", s.ID, s.Stdio.Command, how, c.testimony(child))}
}

// testimony is what a child said last, for an error message.
func (c *client) testimony(child *process.Process) string {
	if c.shared && c.info != (Info{}) {
		return "" // it may tell of other users' calls
	}
	var text string
	if noise := c.lines.Noise(); noise != "" {
		text += "; it wrote to stdout " + noise
	}
	if tail := child.Stderr(stderrTail); tail != "" {
		text += "; its stderr ends with: " + tail
	}
	return c.hide(text)
}

// expand resolves references to the pool's environment, in what an operator wrote.
func (c *Connector) expand(s *registry.Server, values map[string]string) (map[string]string, error) {
	if !s.ByOperator {
		return values, nil
	}
	out, err := expand(values, c.cfg.Environ)
	if err != nil {
		return nil, Errorf(Misconfigured, "MCP server %s: %w", s.ID, err)
	}
	return out, nil
}
