package coding

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	codingv1 "pawl.dev/executor-svc/internal/flow/coding/v1"
	"pawl.dev/executor-svc/internal/state"
)

// nodes parses "a b:a c:a,b".
func nodes(plan string) (out []node) {
	for _, word := range strings.Fields(plan) {
		id, deps, _ := strings.Cut(word, ":")
		out = append(out, node{id, strings.FieldsFunc(deps, func(r rune) bool { return r == ',' })})
	}
	return out
}

// shown writes a graph as "a=PENDING b=BLOCKED".
func shown(g *graph) string {
	var words []string
	for _, s := range g.Subtasks {
		word := s.GetId() + "=" + strings.TrimPrefix(s.GetStatus().String(), "SUBTASK_STATUS_")
		if s.GetDropped() {
			word += "!"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func planned(t *testing.T, plan string) *graph {
	t.Helper()
	g := &graph{State: &codingv1.State{}}
	if err := g.plan(nodes(plan), 20); err != nil {
		t.Fatal(err)
	}
	return g
}

// D7: a plan that cannot be worked on is an error with its path.
func TestInvalidPlans(t *testing.T) {
	for plan, want := range map[string]string{
		"":                "the plan has no subtasks",
		"a b:x":           `b depends on "x", which is not a subtask`,
		"a:a":             "the dependencies have a cycle: a → a",
		"a b:d c:b d:c,a": "the dependencies have a cycle: b → d → c → b",
		"a b a":           `the id "a" is used twice, or empty`,
		"a :a":            `the id "" is used twice, or empty`,
		"a b c d":         "the plan would have 4 subtasks; at most 3 are allowed",
	} {
		g := &graph{State: &codingv1.State{}}
		limit := 3
		if strings.Contains(plan, ",") {
			limit = 4
		}
		if err := g.plan(nodes(plan), limit); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", plan, err, want)
		}
		if len(g.Subtasks) != 0 || g.GetRevision() != 0 {
			t.Errorf("%q: the refused plan is kept: %v", plan, g.State)
		}
	}
}

// D7: each subtask follows its dependencies, which come as early as it wants.
func TestPlanOrder(t *testing.T) {
	if got, want := shown(planned(t, "d:b,c c a b:a e")), "a=PENDING b=BLOCKED c=PENDING d=BLOCKED e=PENDING"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// D7
func TestGraph(t *testing.T) {
	for name, c := range map[string]struct {
		plan string
		do   func(g *graph)
		want string
	}{
		"independent ones start in plan order": {"a b:a c d", func(g *graph) { g.start(2) },
			"a=IN_PROGRESS b=BLOCKED c=IN_PROGRESS d=PENDING"},
		"a dependent waits for all": {"a b c:a,b", func(g *graph) { g.start(9); g.end("a", completed, "") },
			"a=COMPLETED b=IN_PROGRESS c=BLOCKED"},
		"and then can start": {"a b c:a,b", func(g *graph) { g.start(9); g.end("a", completed, ""); g.end("b", completed, "") },
			"a=COMPLETED b=COMPLETED c=PENDING"},
		"a failure cancels dependents, and theirs": {"a b:a c:b d", func(g *graph) { g.start(9); g.end("a", failed, "broken") },
			"a=FAILED b=CANCELLED c=CANCELLED d=IN_PROGRESS"},
		"a cancellation too": {"a b:a c:b d", func(g *graph) { g.end("a", cancelled, "") },
			"a=CANCELLED b=CANCELLED c=CANCELLED d=PENDING"},
		"added": {"a", func(g *graph) { g.must(revision{add: nodes("c:b b:a")}) },
			"a=PENDING b=BLOCKED c=BLOCKED"},
		"added after a completed one": {"a", func(g *graph) { g.start(1); g.end("a", completed, ""); g.must(revision{add: nodes("b:a")}) },
			"a=COMPLETED b=PENDING"},
		"added after a failed one": {"a", func(g *graph) { g.start(1); g.end("a", failed, ""); g.must(revision{add: nodes("b:a")}) },
			"a=FAILED b=CANCELLED"},
		"dropped, with dependents": {"a b:a c", func(g *graph) { g.must(revision{drop: []string{"a"}}) },
			"a=CANCELLED! b=CANCELLED c=PENDING"},
		"reordered": {"a b c:b d", func(g *graph) { g.must(revision{order: []string{"d", "c"}}) },
			"d=PENDING b=PENDING c=BLOCKED a=PENDING"},
		"reordered behind those that started": {"a b c", func(g *graph) { g.start(1); g.must(revision{order: []string{"c", "a"}}) },
			"a=IN_PROGRESS c=PENDING b=PENDING"},
		"what has started is not dropped": {"a b", func(g *graph) { g.start(1); g.must(revision{drop: []string{"a"}}) },
			"a=IN_PROGRESS b=PENDING"},
	} {
		t.Run(name, func(t *testing.T) {
			g := planned(t, c.plan)
			c.do(g)
			if got := shown(g); got != c.want || g.err != nil {
				t.Errorf("%s (%v), want %s", got, g.err, c.want)
			}
		})
	}
}

func (g *graph) must(r revision) {
	if _, err := g.revise(r, 20); err != nil {
		g.err = err
	}
}

// A revision that cannot be applied changes nothing; one that names subtasks that have started meanwhile says so.
func TestRevisions(t *testing.T) {
	for name, c := range map[string]struct {
		r       revision
		skipped string
		err     string
	}{
		"unknown":             {r: revision{drop: []string{"x"}}, err: `"x" is not a subtask of the plan`},
		"unknown in order":    {r: revision{order: []string{"b", "x"}}, err: `"x" is not a subtask of the plan`},
		"an id again":         {r: revision{add: nodes("a")}, err: `the id "a" is used twice, or empty`},
		"unknown dependency":  {r: revision{add: nodes("c:x")}, err: `c depends on "x", which is not a subtask`},
		"cycle":               {r: revision{add: nodes("c:d d:c")}, err: "the dependencies have a cycle: c → d → c"},
		"too many":            {r: revision{add: nodes("c d e")}, err: "the plan would have 5 subtasks; at most 4 are allowed"},
		"started meanwhile":   {r: revision{drop: []string{"a"}, order: []string{"a"}}, skipped: "a"},
		"one started, one no": {r: revision{drop: []string{"a", "b"}}, skipped: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			g := planned(t, "a b:a")
			g.start(1)
			before := proto.CloneOf(g.State)
			skipped, err := g.revise(c.r, 4)
			if got := fmt.Sprint(err); err == nil && c.err != "" || err != nil && got != c.err {
				t.Errorf("%v, want %s", err, c.err)
			}
			if got := strings.Join(skipped, " "); got != c.skipped {
				t.Errorf("skipped %q, want %q", got, c.skipped)
			}
			if changed := !proto.Equal(before, g.State); changed != (name == "one started, one no") {
				t.Errorf("changed is %v: %v", changed, g.State)
			}
		})
	}
}

// D7: whatever starts, ends, is cancelled and revised, no dependent starts before its dependencies are COMPLETED, at most max_parallel run, every
// subtask ends, and statuses change along the table.
func TestGraphHoldsWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 30
		parallel := rapid.IntRange(1, 4).Draw(t, "max_parallel")
		g := &graph{State: &codingv1.State{}}
		if err := g.plan(drawNodes(t, nil), limit); err != nil {
			t.Fatal(err)
		}
		model := map[string]executorv1.SubtaskStatus{}
		for _, s := range g.Subtasks {
			model[s.GetId()] = pending
		}
		for n := 0; !g.ended(); n++ {
			if n > 500 {
				t.Fatalf("no end: %s", shown(g))
			}
			before := len(g.Subtasks)
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				g.end(drawID(t, g), cancelled, "by a person")
				g.err = nil // it may have ended before
			case 1:
				reviseAtRandom(t, g, limit)
			case 2, 3, 4, 5:
				g.start(parallel)
			default:
				if running := withStatus(g, inProgress); len(running) > 0 {
					g.end(rapid.SampledFrom(running).Draw(t, "ends"), rapid.SampledFrom([]executorv1.SubtaskStatus{completed, completed, failed}).Draw(t, "as"), "")
				}
			}
			for _, s := range g.Subtasks {
				if _, known := model[s.GetId()]; !known {
					model[s.GetId()] = pending
				}
			}
			checkGraph(t, g, model, parallel)
			if len(g.Subtasks) < before || len(g.Subtasks) != len(model) {
				t.Fatalf("a subtask is lost: %s", shown(g))
			}
		}
		if g.reached() && len(withStatus(g, failed)) > 0 {
			t.Fatalf("reached although one failed: %s", shown(g))
		}
	})
}

// checkGraph replays the changes on the model and checks the rules.
func checkGraph(t *rapid.T, g *graph, model map[string]executorv1.SubtaskStatus, parallel int) {
	if g.err != nil {
		t.Fatalf("%v: %s", g.err, shown(g))
	}
	for _, c := range g.changes {
		if model[c.id] != c.from || c.from == c.to || state.CheckSubtaskMove(c.from, c.to) != nil {
			t.Fatalf("%s changes from %s to %s, and is %s", c.id, c.from, c.to, model[c.id])
		}
		if model[c.id] = c.to; c.to != inProgress {
			continue
		}
		for _, d := range g.subtask(c.id).GetDependsOn() {
			if id := g.Subtasks[d].GetId(); model[id] != completed {
				t.Fatalf("%s starts while %s is %s", c.id, id, model[id])
			}
		}
	}
	g.changes = nil
	running := 0
	for i, s := range g.Subtasks {
		if model[s.GetId()] != s.GetStatus() {
			t.Fatalf("%s is %s without a change from %s", s.GetId(), s.GetStatus(), model[s.GetId()])
		}
		if s.GetStatus() == inProgress {
			running++
		}
		for _, d := range s.GetDependsOn() {
			if int(d) >= i {
				t.Fatalf("%s does not follow %s: %s", s.GetId(), g.Subtasks[d].GetId(), shown(g))
			}
		}
	}
	if running > parallel {
		t.Fatalf("%d run, at most %d may: %s", running, parallel, shown(g))
	}
	if !g.ended() && running == 0 && len(withStatus(g, pending)) == 0 {
		t.Fatalf("nothing runs and nothing can start: %s", shown(g))
	}
}

// drawNodes draws subtasks that depend on each other and on those of g; they are valid.
func drawNodes(t *rapid.T, g *graph) (out []node) {
	var known []string
	if g != nil {
		for _, s := range g.Subtasks {
			known = append(known, s.GetId())
		}
	}
	for range rapid.IntRange(1, 6).Draw(t, "subtasks") {
		n := node{id: fmt.Sprintf("s%d", len(known))}
		for range rapid.IntRange(0, min(3, len(known))).Draw(t, "dependencies") {
			n.dependsOn = append(n.dependsOn, rapid.SampledFrom(known).Draw(t, "dependency"))
		}
		known, out = append(known, n.id), append(out, n)
	}
	return rapid.Permutation(out).Draw(t, "listed")
}

// reviseAtRandom revises the plan, sometimes wrongly; a refusal changes nothing.
func reviseAtRandom(t *rapid.T, g *graph, limit int) {
	r := revision{reason: "another way"}
	if rapid.Bool().Draw(t, "add") {
		r.add = drawNodes(t, g)
	}
	for range rapid.IntRange(0, 2).Draw(t, "drop") {
		r.drop = append(r.drop, drawID(t, g))
	}
	for range rapid.IntRange(0, 3).Draw(t, "order") {
		r.order = append(r.order, drawID(t, g))
	}
	if rapid.IntRange(0, 4).Draw(t, "wrong") == 0 {
		r.order = append(r.order, "unknown")
	}
	before, changes := proto.CloneOf(g.State), len(g.changes)
	skipped, err := g.revise(r, limit)
	if err != nil && (!proto.Equal(before, g.State) || len(g.changes) != changes) {
		t.Fatalf("a refused revision changed %s", shown(g))
	}
	for _, id := range skipped {
		if s := g.subtask(id); waits(s) || s.GetDropped() && !slices.ContainsFunc(before.GetSubtasks(), func(b *codingv1.Subtask) bool { return b.GetId() == id && b.GetDropped() }) {
			t.Fatalf("%s is skipped and changed: %s", id, shown(g))
		}
	}
}

func drawID(t *rapid.T, g *graph) string {
	return rapid.SampledFrom(g.Subtasks).Draw(t, "subtask").GetId()
}

func withStatus(g *graph, status executorv1.SubtaskStatus) (ids []string) {
	for _, s := range g.Subtasks {
		if s.GetStatus() == status {
			ids = append(ids, s.GetId())
		}
	}
	return ids
}

// The stored state grows by a few bytes per subtask.
func TestStateIsSmall(t *testing.T) {
	g := &graph{State: &codingv1.State{}}
	var all []node
	for i := range 200 {
		n := node{id: fmt.Sprintf("s%d", i)}
		if i > 1 {
			n.dependsOn = []string{fmt.Sprintf("s%d", i-1), fmt.Sprintf("s%d", i-2)}
		}
		all = append(all, n)
	}
	if err := g.plan(all, 200); err != nil {
		t.Fatal(err)
	}
	if size := proto.Size(g.State); size > 200*18 {
		t.Errorf("200 subtasks take %d bytes", size)
	}
}
