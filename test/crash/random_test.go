package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	// inFlight is how many tasks there are at once; more than run at once.
	inFlight = 50
	// killing is how long random kills go on, and soakKilling in a soak.
	killing     = 20 * time.Second
	soakKilling = 20 * time.Minute
	// settling bounds how long the last tasks may take after the last kill.
	settling = 2 * time.Minute
)

// Executor and pool are killed at random times, alone and together, with 50 tasks in flight to which approvals and
// cancellations come: nothing is lost and nothing repeated.
func TestRandomKills(t *testing.T) {
	for _, place := range []string{together, apart, both} {
		t.Run(place, func(t *testing.T) {
			lasts := killing / 3
			if soaking() {
				lasts = soakKilling / 3
			}
			newChaos(t, place).run(t, lasts)
		})
	}
}

// chaos has the processes that are killed at random.
type chaos struct {
	place string
	dir   string
	tasks *keeper
	pool  *keeper // nil: in the executor's process
	kills *rand.Rand
	dead  int // processes that were killed

	mu       sync.Mutex // guards the fields below
	kinds    *rand.Rand
	count    int
	unknowns int
	ended    map[executorv1.ExecutorStatus]int
}

func newChaos(t *testing.T, place string) *chaos {
	t.Helper()
	seed := uint64(time.Now().UnixNano()) // what happens depends on the machine's timing anyway
	t.Logf("seed %d", seed)
	c := &chaos{place: place, dir: filepath.Join(programs.data, t.Name()), kills: rand.New(rand.NewPCG(seed, 0)), kinds: rand.New(rand.NewPCG(seed, 1)), ended: map[executorv1.ExecutorStatus]int{}}
	err := os.MkdirAll(c.dir, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-data", filepath.Join(c.dir, "tasks"), "-mcp-config", programs.config, "all"}
	if place != together {
		addr, addrErr := freeAddr()
		if addrErr != nil {
			t.Fatal(addrErr)
		}
		if c.pool, err = keep(nil, "-listen", addr, "-data", filepath.Join(c.dir, "pool"), "-mcp-config", programs.config, "pool"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.pool.stop)
		args = []string{"-data", filepath.Join(c.dir, "tasks"), "-pool", addr, "executor"}
	}
	if c.tasks, err = keep(nil, args...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.tasks.stop)
	return c
}

// run kills for a while, with tasks in flight all the time, and then lets them end.
func (c *chaos) run(t *testing.T, lasts time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), lasts+settling)
	defer cancel()
	over := make(chan struct{})
	var users sync.WaitGroup
	for range inFlight {
		users.Go(func() {
			for {
				if err := c.one(ctx); err != nil {
					t.Error(err)
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	c.kill(ctx, t, lasts)
	close(over)
	users.Wait()
	restarts, _, slowest := c.tasks.restarts()
	t.Logf("%d kills, %d restarts of the executor (the slowest took %v), %d tasks: %v; %d unknown outcomes were asked about",
		c.dead, restarts, slowest, c.count, c.ended, c.unknowns)
	if c.dead < fewest || c.count < inFlight {
		t.Errorf("%d kills and %d tasks show nothing", c.dead, c.count)
	}
}

// fewest is the least number of kills that shows anything.
const fewest = 3

// kill kills at random times: the executor, its pool, or both; for longer if the machine is slow to start them again.
func (c *chaos) kill(ctx context.Context, t *testing.T, lasts time.Duration) {
	end := time.NewTimer(lasts)
	defer end.Stop()
	var killed [2]int // the number of each keeper's process that was killed last, so that none is killed twice
	for {
		next := time.NewTimer(50*time.Millisecond + time.Duration(c.kills.ExpFloat64()*float64(250*time.Millisecond)))
		over := end.C
		if c.dead < fewest {
			over = nil
		}
		select {
		case <-over:
			next.Stop()
			return
		case <-next.C:
		}
		for i, k := range c.victims() {
			if k == nil {
				continue
			}
			p, n, err := k.after(ctx, killed[i])
			if err != nil {
				t.Error(err)
				return
			}
			p.kill()
			killed[i] = n
			c.dead++
		}
	}
}

// victims returns the processes that die next; nil for one that is spared.
func (c *chaos) victims() [2]*keeper {
	if c.place != both {
		return [2]*keeper{c.tasks}
	}
	v := [2]*keeper{c.tasks, c.pool}
	if which := c.kills.IntN(3); which < 2 {
		v[which] = nil
	}
	return v
}

// one runs a task of a random kind to its end and checks it.
func (c *chaos) one(ctx context.Context) error {
	c.mu.Lock()
	c.count++
	n, f, tool := c.count, flows[c.kinds.IntN(len(flows))], tools[c.kinds.IntN(len(tools))]
	c.mu.Unlock()
	path := filepath.Join(c.dir, strconv.Itoa(n))
	r := newRun(f, tool, path, strconv.Itoa(n), c.tasks)
	if err := r.follow(ctx); err != nil {
		return fmt.Errorf("%s/%s: %w", f.name, tool, err)
	}
	res, err := r.result(ctx)
	if err != nil {
		return fmt.Errorf("%s/%s: %w", f.name, tool, err)
	}
	problems := r.check(res)
	if c.place == apart && !f.loses {
		problems = append(problems, noUnknown(res, f.atInput == "cancel")...)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s/%s:\n- %s%s\nwritten: %s", f.name, tool, joined(problems), story(res.events), readable(path))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unknowns += r.unknowns
	c.ended[res.task.GetStatus()]++
	return os.RemoveAll(path)
}
