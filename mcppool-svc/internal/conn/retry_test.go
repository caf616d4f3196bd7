package conn

import (
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
)

// patient is a call that waits for long.
func patient() Use {
	use := ofCall("")
	use.Patience = 10 * time.Minute
	return use
}

// call makes one that says also when it comes to nothing.
func call(t *testing.T, p *Pool, got chan<- *Lease) {
	use := patient()
	use.Server = server
	l, err := p.Acquire(t.Context(), use)
	if err != nil {
		t.Error(err)
	}
	got <- l
}

// A call whose further connection could not be made once waits for its turn, and for the next attempt, whichever comes first.
func TestTurnEndsWhenAFailureIsForgotten(t *testing.T) {
	inAsking(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		first := acquire(t, p, patient()) // waits for a person
		f.set(&mcp.Error{Kind: mcp.Unavailable, Message: "one bad start"}, 0)
		time.AfterFunc(retryAfter/2, func() { f.set(nil, 0) })
		start := time.Now()
		second := acquire(t, p, patient())
		if took := time.Since(start); took != retryAfter || f.count() != 3 {
			t.Errorf("it took %v and %d connects", took, f.count())
		}
		second.Release()
		first.Release()
	})
}

// Where the circuit is open the next attempt is made when that ends: one, and when that one succeeds all others follow.
func TestTurnsEndWhenTheCircuitCloses(t *testing.T) {
	inAsking(t, Config{BreakAfter: 3, BreakFor: 20 * time.Second}, func(t *testing.T, p *Pool, f *fakes) {
		first := acquire(t, p, patient())
		f.set(&mcp.Error{Kind: mcp.Unavailable, Message: "the database is locked"}, time.Millisecond)
		got := make(chan *Lease)
		for range 5 {
			go call(t, p, got)
		}
		<-time.After(time.Minute) // the circuit is open
		before := f.count()
		<-time.After(time.Minute)
		if n := f.count() - before; n < 2 || n > 3 {
			t.Errorf("%d connects in a minute, of which 20 s pass after each", n)
		}
		f.set(nil, time.Second)
		start := time.Now()
		leases := []*Lease{first}
		for range 5 {
			leases = append(leases, <-got)
		}
		if took := time.Since(start); took > p.cfg.BreakFor+2*time.Second {
			t.Errorf("it took %v", took)
		}
		for _, l := range leases {
			if l != nil {
				l.Release()
			}
		}
	})
}

// What a person has to mend is not tried each second meanwhile.
func TestTurnDoesNotPesterForALogin(t *testing.T) {
	inAsking(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		first := acquire(t, p, patient())
		f.set(mcp.Errorf(mcp.LoginRequired, "log in"), 0)
		got := make(chan *Lease)
		go call(t, p, got)
		<-time.After(time.Minute)
		if n := f.count(); n > 3 {
			t.Errorf("%d connects within a minute", n)
		}
		f.set(nil, 0)
		p.RetireUser(server.UID, "ann") // as a login does
		start := time.Now()
		second := <-got
		if took := time.Since(start); second == nil || took != 0 {
			t.Fatalf("after the login it took %v", took)
		}
		second.Release()
		first.Release()
	})
}
