package playbook

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/jsonref"

	"pawl.dev/services/strictjson"
)

// Playbook is a playbook that was checked.
type Playbook struct {
	Name   string
	Goal   string
	Steps  []Step
	Answer string  // JSON string with references; or ""
	Inputs *inputs // nil if it takes none

	byID map[string]int // the steps' places
}

// Step is one call.
type Step struct {
	ID          string
	Tool        string
	Description string // JSON string with references; or ""
	Input       string // JSON object with references
	Expect      []Expectation
	Continue    bool        // a failure does not end the playbook
	If          *expression // nil: always
	Foreach     *foreach    // nil: once
	Attempts    int         // how often it is tried; 0 and 1: once
	Risk        commonv1.RiskLevel
	Line        int

	template *strictjson.Object // Input, taken apart
}

// foreach is the list of a step that is called for each of its items: an expression or a JSON template.
type foreach struct {
	expression *expression
	template   string
}

// Expectation is what must hold of a step's output.
type Expectation struct {
	Path   string // dotted path into the output; "" is all of it
	Checks []check
	Line   int
}

// check is one operator of an expectation with its operand.
type check struct {
	op      string
	operand string         // JSON, with references where the operator takes any value
	pattern *regexp.Regexp // of matches
}

// ToolIDs returns the tools that the playbook calls, each once, in their order.
func (p *Playbook) ToolIDs() []string {
	var ids []string
	seen := map[string]bool{}
	for _, s := range p.Steps {
		if !seen[s.Tool] {
			seen[s.Tool] = true
			ids = append(ids, s.Tool)
		}
	}
	return ids
}

// use is a reference and where it stands.
type use struct {
	ref  jsonref.Ref
	line int
	text string // as an expression has it; "" is ref's own
}

func (u use) String() string { return cmp.Or(u.text, u.ref.String()) }

// problem is something that is wrong with a playbook.
type problem struct {
	line    int
	message string
}

func (p problem) String() string { return fmt.Sprintf("line %d: %s", p.line, p.message) }

// mostProblems bounds how many problems are told at once.
const mostProblems = 10

// invalid makes the error of a playbook that cannot be used: the message names the first problem, the violations all.
func invalid(problems []problem) error {
	message := problems[0].String()
	if more := len(problems) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	e := errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK, "the playbook cannot be used: %s", message).
		With("line", strconv.Itoa(problems[0].line))
	for i, p := range problems {
		if i == mostProblems {
			break
		}
		e = e.WithViolation("playbook", p.String())
	}
	return e
}

// stepName names a step for a person: its number and, its id, if it has one.
func (p *Playbook) stepName(i int) string {
	if id := p.Steps[i].ID; id != defaultID(i) {
		return fmt.Sprintf("step %d (%s)", i+1, id)
	}
	return fmt.Sprintf("step %d", i+1)
}

func defaultID(i int) string { return "step" + strconv.Itoa(i+1) }

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
