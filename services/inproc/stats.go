package inproc

import (
	"context"
	"time"

	"google.golang.org/grpc/stats"
)

// startClient reports the begin of a call to the client's stats handler, if any, and returns a function that reports the end.
func (c *Conn) startClient(ctx context.Context, name string, clientStream, serverStream bool) (context.Context, func(error)) {
	return start(ctx, c.client, name, true, clientStream, serverStream)
}

// startServer is the same for the server's.
func (c *Conn) startServer(ctx context.Context, name string, clientStream, serverStream bool) (context.Context, func(error)) {
	return start(ctx, c.server, name, false, clientStream, serverStream)
}

func start(ctx context.Context, h stats.Handler, name string, client, clientStream, serverStream bool) (context.Context, func(error)) {
	if h == nil {
		return ctx, func(error) {}
	}
	ctx = h.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: name})
	begun := time.Now()
	h.HandleRPC(ctx, &stats.Begin{Client: client, BeginTime: begun, IsClientStream: clientStream, IsServerStream: serverStream})
	return ctx, func(err error) {
		h.HandleRPC(ctx, &stats.End{Client: client, BeginTime: begun, EndTime: time.Now(), Error: statusOf(err)})
	}
}
