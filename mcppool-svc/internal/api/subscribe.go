package api

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/conn"
)

const (
	// resubscribeMin and resubscribeMax bound the backoff between subscriptions after a lost connection.
	resubscribeMin = 100 * time.Millisecond
	resubscribeMax = 30 * time.Second
)

// SubscribeResource implements McpPoolService.
func (s *Server) SubscribeResource(req *mcppoolv1.SubscribeResourceRequest, stream grpc.ServerStreamingServer[mcppoolv1.SubscribeResourceResponse]) error {
	ctx := stream.Context()
	use, err := s.use(ctx, req.GetMcpId())
	if err != nil {
		return err
	}
	watcher, err := s.hub.Watch(use.User)
	if err != nil {
		return err
	}
	defer watcher.Close()
	sub := &subscriber{s: s, req: req, watcher: watcher, send: stream.Send}
	for delay := time.Duration(0); ; {
		began := time.Now()
		err := sub.follow(ctx)
		switch {
		case !errors.Is(err, errAgain):
			return err
		case time.Since(began) > resubscribeMax:
			delay = 0
		}
		delay = min(max(2*delay, resubscribeMin), resubscribeMax)
		if err := s.pause(ctx, delay); err != nil {
			return err
		}
	}
}

// pause waits for d, or returns an error if ctx ends or the pool stops.
func (s *Server) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopping:
		return errStopping()
	}
}

// errAgain means that the stream needs a subscription over another connection.
var errAgain = errors.New("subscribe again")

// subscriber is one stream of a resource's changes, over one connection after another.
type subscriber struct {
	s       *Server
	req     *mcppoolv1.SubscribeResourceRequest
	watcher *watcher
	send    func(*mcppoolv1.SubscribeResourceResponse) error

	begun   bool   // the first subscription succeeded
	changes uint64 // so far; see SubscribeResourceResponse
}

// follow subscribes over one connection and sends changes until it fails or has to subscribe again (errAgain).
func (r *subscriber) follow(ctx context.Context) error {
	use, err := r.s.use(ctx, r.req.GetMcpId()) // each time: the server may have changed
	if err != nil {
		return err
	}
	sub, err := r.s.Caller.Subscribe(ctx, use, r.req.GetUri())
	switch {
	case err == nil:
		defer sub.Close()
	case r.begun && call.IsTransient(err):
		return errAgain
	default:
		return err
	}
	if r.begun {
		r.changes++ // changes may have been missed meanwhile
	}
	r.begun = true
	if err := r.send(&mcppoolv1.SubscribeResourceResponse{Uri: r.req.GetUri(), Changes: r.changes}); err != nil {
		return err
	}
	return r.relay(ctx, use, sub)
}

// relay sends changes until the subscription ends.
func (r *subscriber) relay(ctx context.Context, use conn.Use, sub *call.Subscription) error {
	for {
		select {
		case <-sub.Changed():
			uri, n := sub.Take()
			r.changes += n
			if err := r.send(&mcppoolv1.SubscribeResourceResponse{Uri: uri, Changes: r.changes}); err != nil {
				return err
			}
		case <-sub.Done():
			return errAgain
		case <-sub.Retired():
			return errAgain
		case <-r.watcher.wake:
			if r.watcher.Take(); r.isOutdated(ctx, use) {
				return errAgain
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-r.s.stopping:
			return errStopping()
		}
	}
}

// isOutdated reports whether the server has changed since use was made, or can no longer be used.
func (r *subscriber) isOutdated(ctx context.Context, use conn.Use) bool {
	current, err := r.s.use(ctx, r.req.GetMcpId())
	return err != nil || current.Server.UID != use.Server.UID || current.Server.Revision() != use.Server.Revision()
}
