package serve_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"pawl.dev/services/serve"
)

// Issue 13: one user gets at most half of a budget, waits for more, and leaves the rest to others.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serve.NewBudget("test", 100)
		hold := func(user string, bytes int64) *serve.Holding {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			held, _ := b.Acquire(ctx, user, bytes)
			return held
		}
		large := hold("ann", 1000)
		if large == nil {
			t.Fatal("one message larger than the share does not get through")
		}
		if hold("ann", 1) != nil {
			t.Error("ann got more than her share")
		}
		bob := hold("bob", 50)
		if bob == nil {
			t.Fatal("bob did not get his share")
		}
		if hold("cas", 1) != nil {
			t.Error("more than the budget was given away")
		}
		bob.Release()
		bob.Release() // no more than once
		if cas := hold("cas", 50); cas == nil {
			t.Error("released bytes were not given to another user")
		}
		if hold("bob", 1) != nil {
			t.Error("a second release freed bytes")
		}
		large.Release()
		ann := hold("ann", 50)
		if ann == nil {
			t.Fatal("ann does not get her share again")
		}
		ann.Shrink(20)
		if hold("", 100) != nil {
			t.Error("more than the budget was given away")
		}
		if hold("ann", 30) == nil {
			t.Error("shrinking freed nothing")
		}
	})
}
