package api

import (
	"testing"
	"testing/synctest"
	"time"
)

// An answer is kept for the given time, and no goroutine is left behind.
func TestAnswersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := answers[int](time.Minute)
		c.Set("a", 1)
		<-time.After(59 * time.Second)
		if got, ok := c.GetIfPresent("a"); !ok || got != 1 {
			t.Errorf("after 59 s: %d, %v", got, ok)
		}
		<-time.After(time.Second)
		if got, ok := c.GetIfPresent("a"); ok {
			t.Errorf("after a minute: %d", got)
		}
	})
}
