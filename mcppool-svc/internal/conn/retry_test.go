package conn

import (
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
)

// patient is the Use of a call that waits for a connection for ten minutes at most.
func patient() Use {
	use := callUse("")
	use.Patience = 10 * time.Minute
	return use
}

// call acquires a lease for a patient call and sends it to got; nil if that fails.
func call(t *testing.T, p *Pool, got chan<- *Lease) {
	use := patient()
	use.Server = server
	l, err := p.Acquire(t.Context(), use)
	if err != nil {
		t.Error(err)
	}
	got <- l
}

// A call whose further connection could not be made waits for a free connection or the next connect, whichever comes first.
func TestTurnEndsWhenAFailureIsForgotten(t *testing.T) {
	inExclusive(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		first := acquire(t, p, patient()) // waits for a person
		f.set(&mcp.Error{Kind: mcp.Unavailable, Message: "one bad start"}, 0)
		time.AfterFunc(retryAfter/2, func() { f.set(nil, 0) })
		start := time.Now()
		second := acquire(t, p, patient())
		if took := time.Since(start); took != retryAfter || f.count() != 3 {
			t.Errorf("the second call waited %v, with %d connects", took, f.count())
		}
		second.Release()
		first.Release()
	})
}

// While the circuit is open calls wait for its end. Then one connect is made, and once it succeeds all others follow.
func TestTurnsEndWhenTheCircuitCloses(t *testing.T) {
	inExclusive(t, Config{BreakAfter: 3, BreakFor: 20 * time.Second}, func(t *testing.T, p *Pool, f *fakes) {
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
			t.Errorf("%d connects in a minute, want one each 20 s", n)
		}
		f.set(nil, time.Second)
		start := time.Now()
		leases := []*Lease{first}
		for range 5 {
			leases = append(leases, <-got)
		}
		if took := time.Since(start); took > p.cfg.BreakFor+2*time.Second {
			t.Errorf("the calls waited %v", took)
		}
		for _, l := range leases {
			if l != nil {
				l.Release()
			}
		}
	})
}

// While a call waits for a login, no connect is made each second.
func TestTurnDoesNotPesterForALogin(t *testing.T) {
	inExclusive(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
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
