package crash

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// seedVariable is the seed of the sample.
	seedVariable = "PAWL_CRASH_SEED"
	// onlyVariable is a prefix of the names of cases: those with it are tried, and no others.
	onlyVariable = "PAWL_CRASH_ONLY"
)

const (
	// sample is how many of the cases outside the core are tried.
	sample = 150
	// soakTrying bounds how long cases are tried in a soak: all of them would take hours.
	soakTrying = 10 * time.Minute
)

// workers is how many victims are tried at once.
const workers = 4

// Wherever the executor dies, alone or with its pool, nothing is lost and nothing repeated (A17, A26). The core
// cases are tried, and a sample of the others (see choose).
func TestEveryPoint(t *testing.T) {
	s := newSession(t)
	plain := s.undisturbed(t)
	cases := s.choose(t, plain)
	if soaking() {
		s.until = time.Now().Add(soakTrying)
	}
	tried, asked := 0, 0
	var slowest time.Duration
	s.each(t, cases, func(c crash, a aftermath) {
		tried++
		asked += a.unknowns
		slowest = max(slowest, a.restart)
		if !a.died && c.place != poolOnly {
			s.missed++
		}
	}, plain)
	t.Logf("%d cases, %d ended before their point; %d unknown outcomes were asked about; slowest restart %v", tried, s.missed, asked, slowest)
	if s.missed*5 > tried {
		t.Errorf("%d of %d cases did not die", s.missed, tried)
	}
}

// session is the workers of a test.
type session struct {
	idle   chan *worker
	missed int
	// until is when no further case is begun; zero: all are tried.
	until time.Time
}

func newSession(t *testing.T) *session {
	t.Helper()
	s := &session{idle: make(chan *worker, workers)}
	for i := range workers {
		w, err := newWorker(filepath.Join(programs.data, t.Name(), strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.stop)
		s.idle <- w
	}
	return s
}

// kind is the common part of cases that reach the same points.
type kind struct{ flow, tool, place string }

// plain is a flow that nothing disturbs.
type plain struct {
	points  int
	summary string
}

// places are where executor and pool are; `apart` first, since its result is the reference.
var places = []string{apart, together, both, poolOnly}

// undisturbed runs each flow without a kill: it counts the points, and its results are the reference of the others.
func (s *session) undisturbed(t *testing.T) map[kind]plain {
	var cases []crash
	only := os.Getenv(onlyVariable)
	for _, f := range flows {
		for _, tool := range tools {
			if begin := f.name + "/" + tool + "/"; !strings.HasPrefix(begin, only) && !strings.HasPrefix(only, begin) {
				continue
			}
			for _, place := range []string{apart, together} {
				cases = append(cases, crash{flow: f, tool: tool, place: place})
			}
		}
	}
	found := map[kind]plain{}
	s.each(t, cases, func(c crash, a aftermath) {
		if len(a.problems) > 0 {
			return // a flow that does not work undisturbed is not disturbed
		}
		p := plain{len(a.points), a.summary}
		found[kind{c.flow.name, c.tool, c.place}] = p
		if c.place == apart {
			found[kind{c.flow.name, c.tool, both}], found[kind{c.flow.name, c.tool, poolOnly}] = p, p
		}
	}, nil)
	return found
}

// all returns all cases: a death at each point and, for the places apart and together, each command that may arrive at each point with a
// death 1, 2 or 4 points later, so that the command is not stored yet, stored, or being applied.
func all(found map[kind]plain) (cases []crash) {
	for _, f := range flows {
		for _, tool := range tools {
			for _, place := range places {
				for n := 1; n <= found[kind{f.name, tool, place}].points; n++ {
					cases = append(cases, crash{flow: f, tool: tool, place: place, die: n})
					if place != apart && place != together {
						continue
					}
					for _, arrives := range f.arrivals() {
						for _, later := range []int{1, 2, 4} {
							cases = append(cases, crash{flow: f, tool: tool, place: place, die: n + later, arrives: arrives, hold: n})
						}
					}
				}
			}
		}
	}
	return cases
}

// arrivals are the commands that may arrive while a flow is at some point.
func (f flow) arrivals() []string {
	if f.inquires {
		return []string{"cancel", "answer", "pause"}
	}
	return []string{"cancel", "approve", "pause"}
}

// core reports whether a case is always tried, as those are in which most can go wrong.
func (c crash) core() bool {
	if c.tool != "write" {
		return false
	}
	switch c.arrives {
	case "answer":
		return c.place == apart && c.die == c.hold+2
	case "":
		if c.flow.inquires {
			return c.place == apart || c.place == poolOnly // if the executor dies, the pool still has the question; if the pool dies, it is lost
		}
		return c.place == apart || c.place == together
	case "approve":
		return c.flow.name == "confirm" && c.place == apart && c.die == c.hold+2
	}
	return c.flow.name == "auto" && c.place == apart && c.die == c.hold+2
}

// choose returns the cases to try.
func (s *session) choose(t *testing.T, found map[kind]plain) []crash {
	cases := all(found)
	if only := os.Getenv(onlyVariable); only != "" {
		return slices.DeleteFunc(cases, func(c crash) bool { return !strings.HasPrefix(c.String(), only) })
	}
	var chosen, others []crash
	for _, c := range cases {
		if c.core() {
			chosen = append(chosen, c)
		} else {
			others = append(others, c)
		}
	}
	usual := "1"
	if soaking() { // another sample each time
		usual = strconv.FormatInt(time.Now().Unix(), 10)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(seedVariable), usual), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", seedVariable, err)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	if soaking() {
		t.Logf("as many of %d cases as there is time for, with %s=%d", len(cases), seedVariable, seed)
		return append(chosen, others...)
	}
	t.Logf("%d of %d cases: %d of the core, and a sample with %s=%d", len(chosen)+sample, len(cases), len(chosen), seedVariable, seed)
	return append(chosen, others[:min(sample, len(others))]...)
}

// mostShown bounds how many failed cases are shown.
const mostShown = 25

// each tries cases, several at once, and calls then for their results, one at a time.
func (s *session) each(t *testing.T, cases []crash, then func(crash, aftermath), found map[kind]plain) {
	var mu sync.Mutex // guards failed, and then
	failed := 0
	var wg sync.WaitGroup
	for _, c := range cases {
		w := <-s.idle
		if !s.until.IsZero() && time.Now().After(s.until) {
			s.idle <- w
			break
		}
		wg.Go(func() {
			a, err := w.try(c, found[kind{c.flow.name, c.tool, c.place}].summary)
			s.idle <- w
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				a.problems = append(a.problems, err.Error())
			}
			if len(a.problems) > 0 {
				if failed++; failed <= mostShown {
					t.Errorf("%s (again with %s=%s):\n- %s", c, onlyVariable, c, joined(a.problems))
				} else {
					t.Errorf("%s: %.200s", c, a.problems[0])
				}
			}
			then(c, a)
		})
	}
	wg.Wait()
}

func joined(problems []string) string {
	text := ""
	for i, p := range problems {
		if i > 0 {
			text += "\n- "
		}
		text += p
	}
	return text
}

// freeAddr returns a loopback address with a port below those that the system assigns by itself, so that a process that is started again
// finds its port free.
func freeAddr() (string, error) {
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(18000))
		lis, err := net.Listen("tcp", addr)
		if err == nil {
			return addr, lis.Close()
		}
	}
	return "", fmt.Errorf("no free address was found")
}
