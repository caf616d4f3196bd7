package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/serve"
)

// notifyLimit bounds the sending of a notification.
const notifyLimit = 5 * time.Second

// errClosed is the error of requests on a connection that this program closed.
var errClosed = &Error{Kind: Unavailable, Message: "the connection to the MCP server was closed", Lost: true}

// client is a connection over any transport. It implements Client.
type client struct {
	wire    transport
	limit   int // bytes of a message
	large   *serve.Budget
	user    string // whose part of large the messages use; "" if users share the connection
	log     *slog.Logger
	server  *registry.Server
	era     era
	version string              // of this program
	hide    func(string) string // hides secrets in a message

	// Properties of the transport.
	cancelsAtServer bool          // pendingRequest.cancel cancels the request at the server too: no notification is needed
	cancelIsFinal   bool          // no response arrives after pendingRequest.cancel
	oneStream       bool          // the responses to all requests come on one stream
	noText          bool          // the transport does not read pendingRequest.text
	stopWait        time.Duration // how long the transport may take to notice pendingRequest.cancel, unless oneStream is set

	// Set by the handshake, before the client is used.
	info      Info
	serverCan mcp.ServerCapabilities
	canTask   bool            // tools may be called as tasks if their definitions allow it
	meta      json.RawMessage // _meta of each request, an object; nil in revisions with a handshake

	shared   bool     // all users share the connection: logs are dropped, and questions that name no call refused
	roots    []string // the answer to roots/list
	sampling bool     // the server may ask models

	throttle *rate.Limiter // limits unsolicited messages of the server

	serving      atomic.Int32   // requests of the server in progress
	work         sync.WaitGroup // goroutines of the connection
	ids          atomic.Int64
	tokens       atomic.Uint64
	toolsVersion atomic.Uint64                       // see Client.ToolsVersion
	mirrors      atomic.Pointer[map[string]mcp.Tool] // tools with inputs that are mirrored into HTTP headers, by name
	offers       offers                              // other than tools

	life   context.Context // of the connection
	finish func()          // ends life
	once   sync.Once       // of Close

	mu            sync.Mutex
	closing       bool                                    // guarded by mu; Close was called
	err           error                                   // guarded by mu; why the connection ended
	calls         map[string]*running                     // guarded by mu; by progress token
	waiting       map[int64]*pendingRequest               // guarded by mu; requests whose responses come on the one stream of all responses
	openQuestions map[questionKey]context.CancelCauseFunc // guarded by mu; cancel functions of open questions
	earlyEnds     map[questionKey]error                   // guarded by mu; the causes of ends that arrived before their questions

	logUnclear    sync.Once       // logs that a question was refused because it named no call
	heldQuestions []chan *running // guarded by mu; questions whose call is not known yet; each receives its call, or nil if it is refused
	unsettled     bool            // guarded by mu; see Client.Settled
	holdFor       time.Duration   // how long a question is held
	onUnnamed     func()          // called for questions that name no call; set by Connect; may be nil
}

func (c *Connector) newClient(s *registry.Server, e era) *client {
	conn := &client{
		log: c.log, server: s, era: e, version: c.cfg.Version, limit: c.cfg.MaxMessage, large: c.cfg.Large,
		calls: make(map[string]*running), waiting: make(map[int64]*pendingRequest),
		openQuestions: make(map[questionKey]context.CancelCauseFunc), earlyEnds: make(map[questionKey]error),
		throttle: rate.NewLimiter(noteRate, noteBurst), holdFor: holdLimit, stopWait: stopWait, hide: func(text string) string { return text },
		shared: s.Isolation == registry.Shared, roots: s.Roots, sampling: s.Sampling != nil && s.Builtin == nil,
	}
	conn.offers.subscribed, conn.offers.subscribing = make(map[string]*subscribers), semaphore.NewWeighted(1)
	conn.life, conn.finish = context.WithCancel(context.Background())
	return conn
}

// admitter returns the function that waits until a large message may be read, or nil. It no longer waits after ctx ends.
func (c *client) admitter(ctx context.Context) func(most int) *jsonrpc.Held {
	if c.large == nil {
		return nil
	}
	return func(most int) *jsonrpc.Held {
		defer c.pauseCalls()()
		return jsonrpc.Admit(ctx, c.large, c.user, most)
	}
}

// pauseCalls pauses the running calls: one of them may wait for the message that is not read yet.
func (c *client) pauseCalls() (resume func()) {
	var paused []func()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.calls {
		if r.call.Pause != nil {
			paused = append(paused, r.call.Pause())
		}
	}
	return func() {
		for _, resume := range paused {
			resume()
		}
	}
}

func (c *client) Info() Info { return c.info }

func (c *client) ToolsVersion() uint64 { return c.toolsVersion.Load() }

func (c *client) Stderr() Stderr {
	t, ok := c.wire.(*stdio)
	if !ok {
		return Stderr{}
	}
	text, cut := t.child.StderrLog()
	return Stderr{Text: c.hide(text), Cut: cut}
}

func (c *client) Done() <-chan struct{} { return c.life.Done() }

func (c *client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *client) isDone() bool { return c.life.Err() != nil }

// isModern reports whether the connection is of a revision without a handshake.
func (c *client) isModern() bool { return c.era == modern }

// fail ends the connection. The first error is kept as the reason.
func (c *client) fail(err error) {
	c.mu.Lock()
	if !c.isDone() {
		c.err = err
	}
	c.mu.Unlock()
	c.finish()
}

func (c *client) Close() error {
	c.once.Do(func() {
		c.mu.Lock()
		c.closing = true
		c.mu.Unlock()
		c.finish()
		c.wire.close()
		c.work.Wait()
	})
	return nil
}

// background runs do in a goroutine that Close waits for. If the connection is being closed, it does nothing and returns false.
func (c *client) background(do func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.work.Go(do)
	return true
}

// notify sends a notification to the server.
func (c *client) notify(method string, params map[string]any) error {
	message := map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "method": method}
	if params != nil {
		message["params"] = params
	}
	return c.post(context.WithoutCancel(c.life), notifyLimit, message)
}

// post sends a message that has no response.
func (c *client) post(ctx context.Context, limit time.Duration, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.wire.post(ctx, text)
}
