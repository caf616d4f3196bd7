package jsonrpc

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, start := NewThrottle(), time.Now()
		for range noteBurst {
			b.Wait(0)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("a burst waited %v", took)
		}
		for range 2 * noteRate {
			b.Wait(0)
		}
		if took := time.Since(start).Round(10 * time.Millisecond); took != 2*time.Second {
			t.Errorf("as many as in 2 s took %v", took)
		}
		start = time.Now()
		b.Wait(32 << 20)
		if took := time.Since(start); took < 400*time.Millisecond {
			t.Errorf("a large one waited %v", took)
		}
	})
}
