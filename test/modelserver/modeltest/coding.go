package modeltest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// Coding is what a model says in a task with a plan. It keeps no state: an answer depends on the request alone, so it is the same whatever the order
// of the lanes' requests, and again after a crash.
type Coding struct {
	// Plans are the plans. The next one answers each time the one before is refused or cannot be used; the last one answers from then on.
	Plans []json.RawMessage `json:"plans"`
	// Risk is the risk of the task; LOW if empty.
	Risk string `json:"risk"`
	// Subtasks are the thoughts about each subtask, by id. The first one that has calls which the history does not show, or that says that the subtask
	// is done, is the next, with those calls.
	Subtasks map[string][]Thought `json:"subtasks"`
	// Answer is the answer at the end.
	Answer string `json:"answer"`
}

// Thought is what the model says about a subtask in one turn.
type Thought struct {
	Text    string      `json:"text"`
	Calls   []Call      `json:"calls"`
	Reflect *Reflection `json:"reflect"` // nil: the model calls no `reflect`
	// Until is a regular expression that the end of the request must match before the thought after a thought without calls.
	Until string `json:"until"`
	// After is a regular expression; if the result of the call before does not match, the thought is left out.
	After string `json:"after"`
}

// Reflection is the input of the tool `reflect`, and the answer to a question for a reflection.
type Reflection struct {
	Done    bool            `json:"done"`
	Summary string          `json:"summary"`
	Next    string          `json:"next"`
	Change  json.RawMessage `json:"plan_change,omitempty"`
}

// view is what a request about a subtask shows.
type view struct {
	subtask string     // id
	calls   []MadeCall // that the request shows in full, oldest first
	last    string     // the last message: the other subtasks, what people said, and the observation
}

// MadeCall is a call in a request, with its result.
type MadeCall struct {
	Name      string // of the tool, as models see it
	Arguments string
	Result    string
}

// ParseCoding reads a script in YAML or JSON. Unknown keys are errors.
func ParseCoding(text string) (*Coding, error) {
	c := &Coding{}
	if err := yaml.UnmarshalStrict([]byte(text), c); err != nil {
		return nil, fmt.Errorf("the script: %w", err)
	}
	return c, c.check()
}

// check returns an error for a regular expression that cannot be compiled. s may be nil.
func (s *Coding) check() error {
	if s == nil {
		return nil
	}
	for id, thoughts := range s.Subtasks {
		for i, t := range thoughts {
			expressions := []string{t.Until, t.After}
			for _, call := range t.Calls {
				expressions = append(expressions, call.Expect)
			}
			for _, e := range expressions {
				if _, err := regexp.Compile(e); err != nil {
					return fmt.Errorf("the script: subtasks.%s[%d]: %w", id, i, err)
				}
			}
		}
	}
	return nil
}

// Coders answers the requests of several tasks, each from a script. It is safe for concurrent use.
type Coders struct {
	mu       sync.Mutex // guards the fields below
	scripts  map[string]*Coding
	problems []string
}

// Add adds the script of the tasks whose goal contains key.
func (c *Coders) Add(key string, script *Coding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scripts == nil {
		c.scripts = map[string]*Coding{}
	}
	c.scripts[key] = script
}

// Problems returns what was wrong with requests of the tasks whose goal contains key.
func (c *Coders) Problems(key string) (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.problems {
		if text, ok := strings.CutPrefix(p, key+": "); ok {
			all = append(all, text)
		}
	}
	return all
}

// Play answers a request. It refuses those that no script answers, and those that lack what a model needs.
func (c *Coders) Play(r *Request) *Turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := strings.Join(r.Texts, "\n")
	for key, script := range c.scripts {
		if !strings.Contains(all, key) {
			continue
		}
		turn, err := script.turn(r)
		if err != nil {
			c.problems = append(c.problems, key+": "+err.Error())
			return &Turn{Error: 400}
		}
		return turn
	}
	return nil
}

const (
	planRefused = "The plan before was refused"
	notJSON     = "That answer cannot be used"
	notMade     = "The call was not made"
	writeAnswer = "Write the answer to the user now"
)

// turn returns the answer to a request.
func (s *Coding) turn(r *Request) (*Turn, error) {
	switch {
	case r.Format == "create_plan":
		return s.plan(r)
	case r.Format == "reflect", r.Format == "" && r.Tool("reflect") != "":
		v, err := viewOf(r)
		if err != nil {
			return nil, err
		}
		thought := v.next(s.Subtasks[v.subtask])
		if thought == nil {
			return nil, fmt.Errorf("subtask %q: the script has no thought that is next; the last calls: %v; the end of the request: %s", v.subtask, v.calls, v.last)
		}
		if r.Format == "" {
			return thought.turn()
		}
		raw, err := json.Marshal(cmp.Or(thought.Reflect, &Reflection{Summary: "It is not done.", Next: "Go on."}))
		return &Turn{JSON: raw}, err
	case r.Format != "":
		return nil, fmt.Errorf("unexpected question %s", r.Format)
	case strings.Contains(r.System+r.last(), writeAnswer):
		return s.answer(r)
	}
	return nil, fmt.Errorf("unexpected request: %s", r.last())
}

func (s *Coding) plan(r *Request) (*Turn, error) {
	n := 0
	for _, text := range r.Texts {
		if strings.Contains(text, notJSON) || strings.Contains(text, planRefused) {
			n++
		}
	}
	if len(s.Plans) == 0 {
		return nil, fmt.Errorf("the script has no plan")
	}
	plan := read[map[string]json.RawMessage](s.Plans[min(n, len(s.Plans)-1)])
	risk, err := json.Marshal(cmp.Or(s.Risk, "LOW"))
	if err != nil {
		return nil, err
	}
	plan["risk"] = risk
	raw, err := json.Marshal(plan)
	return &Turn{JSON: raw}, err
}

// answer checks that the request has the state of each subtask.
func (s *Coding) answer(r *Request) (*Turn, error) {
	for id := range s.Subtasks {
		if !strings.Contains(r.System+r.last(), "- "+id+" ") {
			return nil, fmt.Errorf("the question for the answer does not tell of subtask %s: %s\n%s", id, r.System, r.last())
		}
	}
	return &Turn{Text: s.Answer}, nil
}

// next returns the next thought, with those of its calls that the history does not show.
func (v *view) next(thoughts []Thought) *Thought {
	at := 0 // the calls before have been matched
	for _, t := range thoughts {
		if t.After != "" && (at == 0 || !regexp.MustCompile(t.After).MatchString(v.calls[at-1].Result)) {
			continue
		}
		var due []Call
		for _, c := range t.Calls {
			i := slices.IndexFunc(v.calls[at:], c.isFulfilledBy)
			if i < 0 {
				due = append(due, c)
				continue
			}
			at += i + 1
		}
		switch {
		case len(due) > 0:
			t.Calls = due
			return &t
		case len(t.Calls) == 0 && (t.Until == "" || !regexp.MustCompile(t.Until).MatchString(v.last)):
			return &t
		}
	}
	return nil
}

// isFulfilledBy reports whether a made call is this one, with the expected result.
func (c *Call) isFulfilledBy(made MadeCall) bool {
	expect := cmp.Or(c.Expect, `^\S+ succeeded:`)
	return strings.HasSuffix(made.Name, c.Name) && regexp.MustCompile(expect).MatchString(made.Result)
}

// turn returns the thought as an answer.
func (t *Thought) turn() (*Turn, error) {
	out := &Turn{Text: t.Text}
	if t.Reflect != nil {
		raw, err := json.Marshal(t.Reflect)
		if err != nil {
			return nil, err
		}
		out.Calls = append(out.Calls, Call{Name: "reflect", Arguments: raw})
	}
	for _, c := range t.Calls {
		if len(c.Arguments) > 0 {
			fields := read[map[string]json.RawMessage](c.Arguments)
			if fields == nil {
				fields = map[string]json.RawMessage{}
			}
			for name, value := range map[string]string{"pawl_why": `"for the test"`, "pawl_risk": `"LOW"`} {
				if fields[name] == nil {
					fields[name] = json.RawMessage(value)
				}
			}
			raw, err := json.Marshal(fields)
			if err != nil {
				return nil, err
			}
			c.Arguments = raw
		}
		out.Calls = append(out.Calls, c)
	}
	return out, nil
}

var subtaskLine = regexp.MustCompile(`(?m)^(?:The subtask that you work on: |The subtask\n)(\S+), (.+)$`)

// fullCalls is how many of the last calls a request about a subtask shows at least, and mostCalls how many at most.
const fullCalls, mostCalls = 5, 9

// viewOf reads a request about a subtask, and checks that it holds what a model needs to think: instructions, the goal, the subtask and when it is done,
// the last calls with their results once and the older ones in one line each.
func viewOf(r *Request) (*view, error) {
	all := strings.Join(r.Texts, "\n")
	found := subtaskLine.FindStringSubmatch(all)
	if found == nil {
		return nil, fmt.Errorf("the request names no subtask: %s", all)
	}
	v := &view{subtask: found[1], last: r.last()}
	for _, c := range r.Calls {
		if !strings.Contains(c.Result, notMade) && c.Name != "reflect" {
			v.calls = append(v.calls, c)
		}
	}
	isCut := strings.Contains(all, "Earlier calls of this task")
	switch n := len(v.calls); {
	case !strings.Contains(all, "The goal\n"):
		return nil, fmt.Errorf("the request does not tell the goal: %s", all)
	case !strings.Contains(all, "It is done when\n"):
		return nil, fmt.Errorf("the request does not tell when the subtask is done: %s", all)
	case len(r.System) < 100:
		return nil, fmt.Errorf("the request has no instructions: %s", r.System)
	case n > mostCalls, isCut && n < fullCalls:
		return nil, fmt.Errorf("the request shows %d calls in full", n)
	case n > 0 && strings.Count(all, v.calls[n-1].Result) != 1:
		return nil, fmt.Errorf("the request shows the last observation %d times: %s", strings.Count(all, v.calls[n-1].Result), all)
	}
	return v, nil
}
