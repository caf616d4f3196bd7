// Package playbook is the model `playbook`: steps that a person wrote, in YAML. It is strict: unknown keys, references to missing steps or
// members, and outputs that fail an expectation are errors that name the line or the step. It plans the next step, and the steps after it
// that are certain; it runs nothing.
package playbook

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// Playbook is a playbook that was checked.
type Playbook struct {
	Name   string
	Goal   string
	Steps  []Step // of the main line and of all branches, in the order of the text
	Answer string // JSON string with references; or ""
	Inputs Inputs

	answerLine int            // of Answer, from 1
	byID       map[string]int // indexes of the steps
}

// Step is one step: a call, or with Foreach a call for each item.
type Step struct {
	ID          string
	Tool        string
	Description string // JSON string with references; or ""
	Input       string // JSON object with references
	Expect      []Expectation
	Continue    bool        // a failure does not end the playbook
	If          *expression // nil: always
	Foreach     *expression // nil: once
	Attempts    int         // how often it is tried at most; 0 means 1
	Risk        commonv1.RiskLevel
	Line        int

	block    int                // the position of its `parallel` in the list of steps, from 1; 0: the main line
	branch   string             // its branch; "": the main line
	template *strictjson.Object // Input, parsed
	names    []string           // the names that Input and Description refer to
}

// Expectation is a condition on a step's output.
type Expectation struct {
	Path   string // dotted path into the output; "" is all of it
	Checks []check
	Line   int
}

// check is one operator of an expectation with its operand.
type check struct {
	op      string
	operand string         // JSON, with references if the operator takes any value
	pattern *regexp.Regexp // for matches
}

// ToolIDs returns the tools that the playbook calls, each once, in the order of their first steps.
func (p *Playbook) ToolIDs() (ids []string) {
	for _, s := range p.Steps {
		if !slices.Contains(ids, s.Tool) {
			ids = append(ids, s.Tool)
		}
	}
	return ids
}

// problem is something that is wrong with a playbook.
type problem struct {
	line    int
	message string
}

func (p problem) String() string { return fmt.Sprintf("line %d: %s", p.line, p.message) }

// maxProblems bounds the problems that an error lists.
const maxProblems = 10

// invalid returns the error of a playbook that cannot be used. The message names the first problem, the violations name all.
func invalid(problems []problem) error {
	return report(codes.InvalidArgument, problems, "the playbook cannot be used: "+problems[0].String(), "")
}

func report(code codes.Code, problems []problem, message, end string) error {
	if more := len(problems) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	e := errs.New(code, commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK, "%s%s", message, end).With("line", strconv.Itoa(problems[0].line))
	for i, p := range problems {
		if i == maxProblems {
			return e.WithViolation("playbook", fmt.Sprintf("and %d more", len(problems)-i))
		}
		e = e.WithViolation("playbook", p.String())
	}
	return e
}

func (p *Playbook) stepName(i int) string { return stepName(i, p.Steps[i].ID) }

// stepName names a step for a person, by its number and by its id if the playbook gives one.
func stepName(i int, id string) string {
	if id != defaultID(i) {
		return fmt.Sprintf("step %d (%s)", i+1, id)
	}
	return fmt.Sprintf("step %d", i+1)
}

func defaultID(i int) string { return "step" + strconv.Itoa(i+1) }
