package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// local is mcp-go's transport to a server in this process, but that it writes a request once and a result once: mcp-go's writes and reads
// both once more.
type local struct {
	server  *server.MCPServer
	session *server.InProcessSession
	done    chan struct{}
	start   func() error
	close   func()

	mu     sync.Mutex
	notify func(mcp.JSONRPCNotification) // guarded by mu
}

func newLocal(srv *server.MCPServer, asks server.ElicitationHandler) *local {
	id := srv.GenerateInProcessSessionID()
	l := &local{server: srv, session: server.NewInProcessSessionWithHandlers(id, nil, asks, nil), done: make(chan struct{})}
	l.start = sync.OnceValue(func() error {
		if err := srv.RegisterSession(context.Background(), l.session); err != nil {
			return err
		}
		go l.forward()
		return nil
	})
	l.close = sync.OnceFunc(func() {
		close(l.done)
		srv.UnregisterSession(context.Background(), id)
	})
	return l
}

// Start implements transport.Interface.
func (l *local) Start(context.Context) error { return l.start() }

// forward passes on what the server tells by itself.
func (l *local) forward() {
	for {
		select {
		case n := <-l.session.ClientNotifications():
			l.mu.Lock()
			notify := l.notify
			l.mu.Unlock()
			if notify != nil {
				notify(n)
			}
		case <-l.done:
			return
		}
	}
}

// SendRequest implements transport.Interface.
func (l *local) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	id, ok := request.ID.Value().(int64)
	if !ok {
		return nil, fmt.Errorf("the request's id %s is no integer", request.ID)
	}
	text, err := encodeRequest(id, request)
	if err != nil {
		return nil, fmt.Errorf("failed to marshal request: %w", err)
	}
	response := &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, ID: request.ID}
	switch m := l.server.HandleMessage(l.server.WithContext(ctx, l.session), text).(type) {
	case mcp.JSONRPCResponse:
		if response.Result, err = json.Marshal(m.Result); err != nil {
			return nil, fmt.Errorf("failed to marshal response message: %w", err)
		}
	case mcp.JSONRPCError:
		response.Error = &m.Error
	default:
		return nil, fmt.Errorf("%w: it is a %T", errMalformed, m)
	}
	return response, nil
}

// SendNotification implements transport.Interface.
func (l *local) SendNotification(ctx context.Context, notification mcp.JSONRPCNotification) error {
	text, err := json.Marshal(notification)
	if err != nil {
		return fmt.Errorf("failed to marshal notification: %w", err)
	}
	l.server.HandleMessage(l.server.WithContext(ctx, l.session), text)
	return nil
}

// SetNotificationHandler implements transport.Interface.
func (l *local) SetNotificationHandler(handler func(mcp.JSONRPCNotification)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notify = handler
}

// Close implements transport.Interface.
func (l *local) Close() error {
	l.close()
	return nil
}

// GetSessionId implements transport.Interface.
func (l *local) GetSessionId() string { return "" }
