package offline

import (
	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/planner-svc/internal/result"
	"pawl.dev/services/strictjson"
)

// step is a call that the plan wants.
type step struct {
	tool  *catalog.Tool
	input *strictjson.Object
	part  part
	item  item
}

// part is what a step is in its clause; the answer tells main results and what stands in for them.
type part int

const (
	mainPart    part = iota
	direct           // a call of a tool that was named or found by its words
	preparation      // its output is needed for another step
	insideWords      // the word was nowhere: a search for it within longer words
	looseName        // no file has exactly that name: a search for names that hold it
	plainSearch      // no definition was found: a search for the name
	lookAround       // the file was not there: a search for its name elsewhere
	elsewhere        // the file that lookAround found
)

// item is one of the things that a clause asks about.
type item struct {
	intent goal.Intent
	term   goal.Term
	kind   goal.Kind
	path   string
	file   bool // path is a file
	lines  goal.Lines
	deep   bool
}

// done is a step and what came of it.
type done struct {
	*step
	res   *result.Result
	again bool // the same was done for a clause before, and is not told again
}

// script tells the next step after those that it has seen done; nil when it is finished. It is pure: it is asked again from
// the start for every plan.
type script func(done []done) *step

// once is a script of a single step.
func once(s *step) script {
	return func(d []done) *step {
		if len(d) == 0 {
			return s
		}
		return nil
	}
}

// series runs scripts one after the other.
func series(scripts []script) script {
	return func(d []done) *step {
		for _, s := range scripts {
			n := 0
			for {
				next := s(d[:n])
				if next == nil {
					break
				}
				if n == len(d) {
					return next
				}
				n++
			}
			d = d[n:]
		}
		return nil
	}
}

// orElse goes on with another script where the single step of the first one did not give what was hoped for.
func orElse(first *step, poor func(*result.Result) bool, second func(*result.Result) script) script {
	return func(d []done) *step {
		if len(d) == 0 {
			return first
		}
		if !poor(d[0].res) {
			return nil
		}
		if then := second(d[0].res); then != nil {
			return then(d[1:])
		}
		return nil
	}
}

// after runs a script that needs the result of a step before it.
func after(first *step, then func(*result.Result) script) script {
	return orElse(first, func(*result.Result) bool { return true }, then)
}
