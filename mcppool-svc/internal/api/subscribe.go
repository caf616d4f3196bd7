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
	// resubscribeMin and resubscribeMax are how long a subscription waits whose connection was lost again and again.
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
	leave, err := s.streams.enter(use.User)
	if err != nil {
		return err
	}
	defer leave()
	watcher := s.hub.Watch(use.User)
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
		if err := s.rest(ctx, delay); err != nil {
			return err
		}
	}
}

// rest waits before the next try.
func (s *Server) rest(ctx context.Context, d time.Duration) error {
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

// errAgain means that the connection, or the server's configuration, is another one by now.
var errAgain = errors.New("subscribe again")

// subscriber is one stream of a resource's changes, over one connection after the other.
type subscriber struct {
	s       *Server
	req     *mcppoolv1.SubscribeResourceRequest
	watcher *watcher
	send    func(*mcppoolv1.SubscribeResourceResponse) error

	begun   bool
	changes uint64
}

// follow subscribes over one connection and tells of changes until that ends.
func (r *subscriber) follow(ctx context.Context) error {
	use, err := r.s.use(ctx, r.req.GetMcpId()) // each time: it may have been deactivated, or be another one
	if err != nil {
		return err
	}
	sub, err := r.s.caller.Subscribe(ctx, use, r.req.GetUri())
	switch {
	case err == nil:
		defer sub.Close()
	case r.begun && call.IsPassing(err):
		return errAgain
	default:
		return err
	}
	if r.begun {
		r.changes++ // nobody listened meanwhile
	}
	r.begun = true
	if err := r.send(&mcppoolv1.SubscribeResourceResponse{Uri: r.req.GetUri(), Changes: r.changes}); err != nil {
		return err
	}
	return r.tell(ctx, use, sub)
}

// tell tells of changes for as long as the subscription stands.
func (r *subscriber) tell(ctx context.Context, use conn.Use, sub *call.Subscription) error {
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
		case <-r.watcher.Woken():
			if r.watcher.Take(); r.isOther(ctx, use) {
				return errAgain
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-r.s.stopping:
			return errStopping()
		}
	}
}

// isOther says whether what is subscribed to is reached in another way by now, or not at all; which, is found out by trying.
func (r *subscriber) isOther(ctx context.Context, use conn.Use) bool {
	now, err := r.s.use(ctx, r.req.GetMcpId())
	return err != nil || now.Server.UID != use.Server.UID || now.Server.Revision() != use.Server.Revision()
}
