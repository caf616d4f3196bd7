package reason

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/model"
)

// PlaybookModel is the name of the model that a task with a playbook uses.
const PlaybookModel = "playbook"

// Models are the models that can plan, by name.
type Models struct {
	byName map[string]model.Model
	order  []string // the default first
	beside []string // that cannot plan
}

// Beside tells of models that can be asked as they are, but not plan: a task that names one hears that.
func (m *Models) Beside(names []string) { m.beside = names }

// NewModels takes the models in the order in which they are listed. The default must be one of them.
func NewModels(defaultModel string, list ...model.Model) (*Models, error) {
	m := &Models{byName: map[string]model.Model{}}
	for _, one := range list {
		name := one.Info().Name
		m.byName[name] = one
		if name == defaultModel {
			m.order = append([]string{name}, m.order...)
		} else {
			m.order = append(m.order, name)
		}
	}
	switch _, ok := m.byName[defaultModel]; {
	case !ok:
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG,
			"the default model %q is not one of the models %s", defaultModel, strings.Join(m.order, ", "))
	case defaultModel == PlaybookModel:
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG,
			"the model %q cannot be the default: it is used by tasks that bring a playbook; choose one of %s", PlaybookModel, strings.Join(m.order[1:], ", "))
	}
	return m, nil
}

// List returns the models as contracts have them, the default first.
func (m *Models) List() []*plannerv1.Model {
	var out []*plannerv1.Model
	for i, name := range m.order {
		out = append(out, &plannerv1.Model{Name: name, Description: m.byName[name].Info().Description, IsDefault: i == 0, CanPlan: true})
	}
	return out
}

// choose returns the model of a task: the one it names; else `playbook` where it has one; else the default.
func (m *Models) choose(tc *plannerv1.TaskContext) (model.Model, error) {
	name := tc.GetModel()
	switch hasPlaybook := strings.TrimSpace(tc.GetPlaybook()) != ""; {
	case name == "" && hasPlaybook:
		name = PlaybookModel
	case name == "":
		name = m.order[0]
	case hasPlaybook && name != PlaybookModel:
		return nil, invalid("context.model", "the task has a playbook, so its model is %q; leave the model %q out, or the playbook", PlaybookModel, name)
	case !hasPlaybook && name == PlaybookModel:
		return nil, invalid("context.playbook", "the model %q needs a playbook; give one, or another model", PlaybookModel)
	}
	chosen, ok := m.byName[name]
	if !ok && slices.Contains(m.beside, name) {
		return nil, invalid("context.model", "the model %q answers what it is asked (Generate), and cannot plan tasks; %s can", name, strings.Join(m.order, ", "))
	}
	if !ok {
		return nil, invalid("context.model", "there is no model %q; there are %s", name, strings.Join(m.order, ", "))
	}
	return chosen, nil
}

// invalid is an error about a field of the request.
func invalid(field, format string, args ...any) error {
	e := errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
	return e.WithViolation(field, e.Message)
}
