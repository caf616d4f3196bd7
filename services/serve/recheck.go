package serve

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"pawl.dev/services/stack"
)

// sweepEvery is the time between two checks of the credentials of all open streams.
const sweepEvery = 2 * time.Second

// openStreams are the streams that a process serves. While there are any, a timer checks their credentials again, because a stream without messages
// would not notice that its credential was revoked or has expired.
type openStreams struct {
	mu      sync.Mutex // guards the following
	streams map[*checkedStream]struct{}
	timer   *time.Timer // nil while there are no streams
}

func (o *openStreams) add(s *checkedStream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.streams == nil {
		o.streams = map[*checkedStream]struct{}{}
	}
	o.streams[s] = struct{}{}
	if o.timer == nil {
		o.timer = time.AfterFunc(sweepEvery, o.sweep)
	}
}

func (o *openStreams) remove(s *checkedStream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.streams, s)
}

// sweep ends the streams whose credentials are refused.
func (o *openStreams) sweep() {
	o.mu.Lock()
	streams := slices.Collect(maps.Keys(o.streams))
	o.mu.Unlock()
	for _, s := range streams {
		if err := s.recheck(); err != nil {
			s.end(&refusal{err})
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.streams) == 0 {
		o.timer = nil
		return
	}
	o.timer.Reset(sweepEvery)
}

// refusal is the cause that ends a stream whose credential is refused.
type refusal struct{ error }

// endRefused runs the handler of a stream of requests, and returns if the credential is refused meanwhile. Such a handler may wait for a message,
// which ends only when its stream does, so it runs in a goroutine of its own.
func endRefused(s *checkedStream, handler func() error) error {
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				ended <- panicError(s.ctx, s.log, s.method, p)
			}
		}()
		stack.Reserve()
		ended <- handler()
	}()
	select {
	case err := <-ended:
		return err
	case <-s.ctx.Done():
	}
	if err := refusedCause(s.ctx); err != nil {
		return err
	}
	return <-ended
}

// refusedCause returns why the credential of a stream was refused, or nil.
func refusedCause(ctx context.Context) error {
	var refused *refusal
	if errors.As(context.Cause(ctx), &refused) {
		return refused.error
	}
	return nil
}
