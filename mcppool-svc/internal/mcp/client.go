package mcp

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/process"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/worker"
)

// notifyLimit bounds the sending of a cancellation.
const notifyLimit = 5 * time.Second

// errClosed is what calls come to whose connection was closed under them.
var errClosed = &Error{Kind: Unavailable, Message: "the connection to the MCP server was closed", Lost: true}

// client is a connection made with mcp-go. It implements Client.
type client struct {
	mcp  *mcpclient.Client
	wire transport.Interface // the tap, and what it is for over HTTP
	tap  *tap
	pipe *lines // under the tap, to a child; nil otherwise
	log  *slog.Logger
	era  era
	info Info // set before anybody else has the client
	// canTask: tools may be called as tasks where they say so. Set as info is.
	canTask bool
	// web: requests go out one by one over HTTP.
	web bool
	// ear is what a server with sessions tells of changes through; nil where it has another way, or none.
	ear *ear
	// roots are what the server is told when it asks for them.
	roots []string
	// server is whose connection it is.
	server *registry.Server
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
	obituary func() *Error
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
	ids    atomic.Int64 // of requests that do not go through mcp
	// workers run what may not care for its context; of direct ones.
	workers *worker.Pool
	// head is what each request says of this client where there was no handshake.
	head  head
	notes sync.WaitGroup // cancellations on their way

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
		wire: wire, tap: t, era: e, log: log, done: make(chan struct{}),
		calls: make(map[string]*running), open: make(map[string]context.CancelCauseFunc), early: make(map[string]error),
		release: func() {}, patience: clearWithin,
		hide: func(text string) string { return text },
	}
	c.obituary = func() *Error {
		if err := c.Err(); err != nil {
			return As(err)
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

// Info implements Client.
func (c *client) Info() Info { return c.info }

// ToolsVersion implements Client.
func (c *client) ToolsVersion() uint64 { return c.tools.Load() }

// Stderr implements Talker.
func (c *client) Stderr() Stderr {
	if c.child == nil {
		return Stderr{}
	}
	text, cut := c.child.StderrLog()
	return Stderr{Text: c.hide(text), Cut: cut}
}

// Done implements Client.
func (c *client) Done() <-chan struct{} { return c.done }

// Err implements Client.
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

// Close implements Client.
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
