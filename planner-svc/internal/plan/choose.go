package plan

import (
	"slices"
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
	list []Planner // the default first
	find func(name string) (Planner, error)
}

// NewPlanners takes the planners in the order in which List returns them, the default first. The default must be one of them, and not Playbook.
// find returns the planner of any other name that a task gives.
func NewPlanners(defaultName string, find func(name string) (Planner, error), list ...Planner) (*Planners, error) {
	p := &Planners{list: slices.Clone(list), find: find}
	i := slices.IndexFunc(p.list, func(one Planner) bool { return one.Info().Name == defaultName })
	switch {
	case i < 0:
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG,
			"the default model %q is not one of the models %s", defaultName, strings.Join(p.names(), ", "))
	case defaultName == Playbook:
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG,
			"the model %q cannot be the default: it is used by tasks that bring a playbook; choose another of %s", Playbook, strings.Join(p.names(), ", "))
	}
	chosen := p.list[i]
	p.list = slices.Insert(slices.Delete(p.list, i, i+1), 0, chosen)
	return p, nil
}

func (p *Planners) names() []string {
	names := make([]string, 0, len(p.list))
	for _, one := range p.list {
		names = append(names, one.Info().Name)
	}
	return names
}

// List returns the planners, the default first.
func (p *Planners) List() []Planner { return p.list }

// Choose returns the planner of a task: the one it names; else Playbook if it has one; else the default.
func (p *Planners) Choose(tc *plannerv1.TaskContext) (Planner, error) {
	name := tc.GetModel()
	switch hasPlaybook := strings.TrimSpace(tc.GetPlaybook()) != ""; {
	case name == "" && hasPlaybook:
		name = Playbook
	case name == "":
		return p.list[0], nil
	case hasPlaybook && name != Playbook:
		return nil, Invalid("context.model", "the task has a playbook, so its model is %q; leave the model %q out, or the playbook", Playbook, name)
	case !hasPlaybook && name == Playbook:
		return nil, Invalid("context.playbook", "the model %q needs a playbook; give one, or another model", Playbook)
	}
	return p.Find(name)
}

// Find returns the planner of that name.
func (p *Planners) Find(name string) (Planner, error) {
	for _, one := range p.list {
		if one.Info().Name == name {
			return one, nil
		}
	}
	found, err := p.find(name)
	if err != nil {
		return nil, Invalid("model", "%s; there are %s", errs.From(err).Message, strings.Join(p.names(), ", "))
	}
	return found, nil
}
