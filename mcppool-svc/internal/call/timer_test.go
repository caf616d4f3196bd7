package call

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The timer is paused while a person is asked, however many questions are open.
func TestTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, cancel := context.WithCancelCause(t.Context())
		var w timer
		w.start(cancel, time.Minute)
		defer w.stop()
		<-time.After(20 * time.Second)
		w.pause()
		w.pause()
		<-time.After(time.Hour)
		w.resume()
		<-time.After(time.Hour)
		w.resume()
		<-time.After(20 * time.Second)
		w.pause()
		w.resume()
		<-ctx.Done()
		if took := time.Since(begin); took != 2*time.Hour+time.Minute {
			t.Errorf("the timer ended after %v", took)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) || !strings.Contains(cause.Error(), "within 1m") {
			t.Errorf("cause = %v", cause)
		}
		w.pause()
		w.stop()
		w.resume() // of a question that outlived its call
	})
}
