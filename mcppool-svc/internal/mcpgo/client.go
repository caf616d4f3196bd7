package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/process"
	"pawl.dev/mcppool-svc/internal/spec"
	"pawl.dev/mcppool-svc/internal/upstream"
)

const (
	// cancelGrace is how long a server has to answer a call that was cancelled; its answer counts.
	cancelGrace = 2 * time.Second
	// abandonWait is how long a transport may take to notice that a request was given up.
	abandonWait = time.Second
	// notifyLimit bounds the sending of a cancellation.
	notifyLimit = 5 * time.Second
)

// errClosed is what calls come to whose connection was closed under them.
var errClosed = &upstream.Error{Kind: upstream.Unavailable, Message: "the connection to the MCP server was closed", Lost: true}

// client is a connection made with mcp-go. It implements upstream.Client.
type client struct {
	mcp  *mcpclient.Client
	wire transport.Interface // the tap
	log  *slog.Logger
	era  era
	info upstream.Info // set before anybody else has the client
	// canTask: tools may be called as tasks where they say so. Set as info is.
	canTask bool
	// web: requests go out one by one over HTTP.
	web bool
	// ear is what a server with sessions tells of changes through; nil where it has another way, or none.
	ear *ear
	// roots are what the server is told when it asks for them.
	roots []string
	// server is whose connection it is.
	server *spec.Server
	// sampling: the server may have models asked.
	sampling bool
	// reply sends the answer to a request of the server: mcp-go's transports wait 30 s for it over HTTP, and log for everybody
	// where it cannot be sent. nil where the transport has other ways.
	reply func(context.Context, *transport.JSONRPCResponse) error

	// shared: all users share the connection; what names no call is told to nobody.
	shared bool
	// direct: the transport runs the tool under the request's own context, so that ending it is the way to cancel.
	direct bool
	// hangsUp: ending the request's stream is the way to cancel; no answer can come after that.
	hangsUp bool
	// mirrors is where to say which tools cannot be used where inputs are mirrored into headers; nil where they are not.
	mirrors *slog.Logger
	// annotated: some tool may have had such an input.
	annotated atomic.Bool
	// obituary says why a transport that closed did so; may wait a moment for the reason.
	obituary func() *upstream.Error
	// hide takes secrets out of a message.
	hide func(string) string
	// lines and said are of a child: what it writes, and what it wrote last, for error messages; nil otherwise.
	lines *lineReader
	said  func() string
	// child is the process behind a stdio connection; nil otherwise.
	child *process.Process
	// release ends what is behind the transport, after that was closed.
	release func()

	closing atomic.Bool  // it is being closed on purpose
	serving atomic.Int32 // requests of the server that are being answered

	tools  atomic.Uint64
	offers offers // beside tools
	tokens atomic.Uint64
	notes  sync.WaitGroup // cancellations on their way

	done   chan struct{}
	life   context.Context // ends with done
	finish func()          // closes done
	close  func() error

	mu    sync.Mutex
	err   error                              // guarded by mu; why the connection ended
	calls map[string]*running                // guarded by mu; by progress token
	open  map[string]context.CancelCauseFunc // guarded by mu; ends of open questions, by keys of what the server calls them
	early map[string]error                   // guarded by mu; ends that came before their question, by the same

	wasUnclear bool    // guarded by mu; a question was refused for that
	held       []*held // guarded by mu; questions of which it may yet turn out whose they are
	unsettled  bool    // guarded by mu; a call was given up that the server never answered
	// patience is how long that may take; unnamed is told of questions that name no call, and may be nil. Set as info is.
	patience time.Duration
	unnamed  func()
}

func newClient(t *tap, wire transport.Interface, e era, log *slog.Logger, opts ...mcpclient.ClientOption) *client {
	c := &client{
		wire: wire, era: e, log: log, done: make(chan struct{}),
		calls: make(map[string]*running), open: make(map[string]context.CancelCauseFunc), early: make(map[string]error),
		release: func() {}, patience: clearWithin,
		hide: func(text string) string { return text },
	}
	c.obituary = func() *upstream.Error {
		if err := c.Err(); err != nil {
			return upstream.As(err)
		}
		return errClosed
	}
	c.offers.init()
	life, end := context.WithCancel(context.Background())
	c.life = life
	c.finish = sync.OnceFunc(func() {
		close(c.done)
		end()
	})
	c.close = sync.OnceValue(c.shutdown)
	t.serve = c.serve
	c.mcp = mcpclient.NewClient(wire, opts...)
	c.mcp.OnNotification(c.notified)
	return c
}

// Info implements upstream.Client.
func (c *client) Info() upstream.Info { return c.info }

// ToolsVersion implements upstream.Client.
func (c *client) ToolsVersion() uint64 { return c.tools.Load() }

// Stderr implements upstream.Talker.
func (c *client) Stderr() upstream.Stderr {
	if c.child == nil {
		return upstream.Stderr{}
	}
	text, cut := c.child.StderrLog()
	return upstream.Stderr{Text: c.hide(text), Cut: cut}
}

// Done implements upstream.Client.
func (c *client) Done() <-chan struct{} { return c.done }

// Err implements upstream.Client.
func (c *client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail marks the connection as useless; the first reason stays.
func (c *client) fail(err error) {
	c.mu.Lock()
	select {
	case <-c.done:
	default:
		c.err = err
	}
	c.mu.Unlock()
	c.finish()
}

// Close implements upstream.Client.
func (c *client) Close() error { return c.close() }

func (c *client) shutdown() error {
	c.mu.Lock()
	c.closing.Store(true)
	c.mu.Unlock()
	c.finish()
	err := c.mcp.Close()
	c.release()
	c.notes.Wait()
	return err
}

// request makes one request of a tool call, which ctx interrupts.
func (c *client) request(ctx context.Context, x *exchange, send func(context.Context) error) (json.RawMessage, error) {
	run, stop := context.WithCancel(withExchange(context.WithoutCancel(ctx), x))
	defer stop()
	answered := make(chan error, 1)
	if c.direct {
		// The tool may not care for its context.
		go func() { answered <- send(run) }()
		select {
		case err := <-answered:
			return c.outcome(x, err)
		case <-ctx.Done():
			return c.interrupt(ctx, x, answered, stop)
		}
	}
	// All other transports return when told to; a goroutine for every request would be a tenth of a short call's time.
	var end verdict
	interrupted := make(chan struct{})
	spare := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		end.raw, end.err = c.interrupt(ctx, x, answered, stop)
	})
	err := send(run)
	if spare() {
		return c.outcome(x, err)
	}
	answered <- err
	<-interrupted
	return end.raw, end.err
}

// verdict is what an interrupted call came to.
type verdict struct {
	raw json.RawMessage
	err error
}

// interrupt ends a call whose caller gave up: the server is told, may still answer within the grace, and what it answers
// counts. There is no grace for a deadline: the caller was promised that time and no more.
func (c *client) interrupt(ctx context.Context, x *exchange, answered <-chan error, stop func()) (json.RawMessage, error) {
	cause := context.Cause(ctx)
	id, handed := x.abandon()
	switch {
	case !handed || c.hangsUp:
	case c.direct:
		stop()
	default:
		c.tellCancelled(id, cause.Error())
	}
	if handed && !c.hangsUp && !errors.Is(cause, context.DeadlineExceeded) {
		if err, ok := within(cancelGrace, answered); ok {
			return c.outcome(x, err)
		}
	}
	stop()
	_, _ = within(abandonWait, answered)
	r := x.report()
	if r.result != nil {
		return r.result, nil // it came in the last moment
	}
	return nil, &upstream.Error{Kind: upstream.Interrupted, Message: cause.Error(), Sent: r.sent, Err: errors.Join(ctx.Err(), cause)}
}

// within waits for an answer, but not longer than d.
func within(d time.Duration, answered <-chan error) (error, bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-answered:
		return err, true
	case <-timer.C:
		return nil, false
	}
}

// tellCancelled sends notifications/cancelled, beside whatever else the connection does.
func (c *client) tellCancelled(id mcp.RequestId, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Load() {
		return // nobody hears it any more, and Close waits for those that were on their way
	}
	c.notes.Go(func() { c.sendCancelled(id, reason) })
}

func (c *client) sendCancelled(id mcp.RequestId, reason string) {
	var n mcp.JSONRPCNotification
	n.JSONRPC = mcp.JSONRPC_VERSION
	n.Method = string(mcp.MethodNotificationCancelled)
	n.Params.AdditionalFields = map[string]any{"requestId": id, "reason": reason}
	ctx, cancel := context.WithTimeout(context.Background(), notifyLimit)
	defer cancel()
	_ = c.wire.SendNotification(ctx, n) // best effort: the call ends in any case
}
