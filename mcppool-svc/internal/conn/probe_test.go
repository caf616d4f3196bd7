package conn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// probed is a connection whose Probe counts itself and returns *err.
type probed struct {
	*fakeClient
	probes *int
	err    *error
}

func (c probed) Probe(context.Context) error {
	*c.probes++
	return *c.err
}

// TestIdleConnectionsAreProbed: a connection that was idle for long is probed once before it is handed out, and replaced if the
// probe fails.
func TestIdleConnectionsAreProbed(t *testing.T) {
	var probes int
	var dead error
	inPool(t, Config{IdleTimeout: time.Hour}, func(t *testing.T, p *Pool, f *fakes) {
		connect := p.connect
		p.connect = func(ctx context.Context, s *registry.Server, user string) (mcp.Client, error) {
			c, err := connect(ctx, s, user)
			if err != nil {
				return nil, err
			}
			return probed{c.(*fakeClient), &probes, &dead}, nil
		}
		lease := func() *Lease {
			t.Helper()
			l, err := p.Acquire(t.Context(), Use{Server: server, User: "ann"})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		first := lease()
		first.Release()
		lease().Release()
		if probes != 0 {
			t.Errorf("%d probes of a connection in use", probes)
		}
		<-time.After(2 * probeIdleAfter) // virtual
		lease().Release()
		lease().Release()
		if probes != 1 || f.count() != 1 {
			t.Errorf("%d probes, %d connections; want 1 and 1", probes, f.count())
		}
		<-time.After(2 * probeIdleAfter)
		dead = errors.New("no answer")
		second := lease()
		synctest.Wait()
		if probes != 2 || f.count() != 2 || second.Client() == first.Client() || !f.made[0].isClosed() {
			t.Errorf("%d probes, %d connections; want 2 and 2, the first one closed", probes, f.count())
		}
		second.Release()
	})
}
