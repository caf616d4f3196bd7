package plan

import (
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// Playbook is the name of the planner of tasks with a playbook.
const Playbook = "playbook"

// Planners are the planners that tasks can name.
type Planners struct {
	byName map[string]Planner
	names  []string // the default first
}

// NewPlanners takes the planners in the order in which List returns them, the default first. defaultName must be one of them, and not
// Playbook.
func NewPlanners(defaultName string, list ...Planner) (*Planners, error) {
	p := &Planners{byName: map[string]Planner{}}
	for _, one := range list {
		name := one.Info().Name
		p.byName[name] = one
		if name == defaultName {
			p.names = append([]string{name}, p.names...)
		} else {
			p.names = append(p.names, name)
		}
	}
	switch {
	case p.byName[defaultName] == nil:
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG,
			"the default model %q is not one of the models %s", defaultName, strings.Join(p.names, ", "))
	case defaultName == Playbook:
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG,
			"the model %q cannot be the default: it is used by tasks that bring a playbook; choose one of %s", Playbook, strings.Join(p.names[1:], ", "))
	}
	return p, nil
}

// List returns the planners, the default first.
func (p *Planners) List() []Planner {
	list := make([]Planner, 0, len(p.names))
	for _, name := range p.names {
		list = append(list, p.byName[name])
	}
	return list
}

// Choose returns the planner of a task: the one it names; else Playbook if it has one; else the default.
func (p *Planners) Choose(tc *plannerv1.TaskContext) (Planner, error) {
	name := tc.GetModel()
	switch hasPlaybook := strings.TrimSpace(tc.GetPlaybook()) != ""; {
	case name == "" && hasPlaybook:
		name = Playbook
	case name == "":
		name = p.names[0]
	case hasPlaybook && name != Playbook:
		return nil, invalid("context.model", "the task has a playbook, so its model is %q; leave the model %q out, or the playbook", Playbook, name)
	case !hasPlaybook && name == Playbook:
		return nil, invalid("context.playbook", "the model %q needs a playbook; give one, or another model", Playbook)
	}
	if chosen := p.byName[name]; chosen != nil {
		return chosen, nil
	}
	return nil, invalid("context.model", "there is no model %q; there are %s", name, strings.Join(p.names, ", "))
}
