package api

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// changeable copies one field of an agent, by its name in an update mask.
var changeable = map[string]func(to *storagev1.Agent, from *executorv1.Agent){
	"display_name":     func(to *storagev1.Agent, from *executorv1.Agent) { to.DisplayName = from.GetDisplayName() },
	"description":      func(to *storagev1.Agent, from *executorv1.Agent) { to.Description = from.GetDescription() },
	"mcp_ids":          func(to *storagev1.Agent, from *executorv1.Agent) { to.McpIds = from.GetMcpIds() },
	"model":            func(to *storagev1.Agent, from *executorv1.Agent) { to.Model = from.GetModel() },
	"flow":             func(to *storagev1.Agent, from *executorv1.Agent) { to.Flow = from.GetFlow() },
	"confirm":          func(to *storagev1.Agent, from *executorv1.Agent) { to.Confirm = from.GetConfirm() },
	"max_steps":        func(to *storagev1.Agent, from *executorv1.Agent) { to.MaxSteps = from.GetMaxSteps() },
	"max_failed_steps": func(to *storagev1.Agent, from *executorv1.Agent) { to.MaxFailedSteps = from.GetMaxFailedSteps() },
	"budget":           func(to *storagev1.Agent, from *executorv1.Agent) { to.Budget = storedBudget(from.GetBudget()) },
	"wait_timeout": func(to *storagev1.Agent, from *executorv1.Agent) {
		to.WaitTimeout = int64(from.GetWaitTimeout().AsDuration())
	},
	"on_unknown_outcome": func(to *storagev1.Agent, from *executorv1.Agent) { to.OnUnknownOutcome = from.GetOnUnknownOutcome() },
}

// outputOnly are fields that clients send back as they read them; they change nothing.
var outputOnly = map[string]bool{"id": true, "etag": true, "user_sub": true, "create_time": true, "update_time": true}

// merge applies the fields that the mask names; without a mask, those that are set.
func merge(old *storagev1.Agent, a *executorv1.Agent, mask *fieldmaskpb.FieldMask) (*storagev1.Agent, error) {
	next := proto.Clone(old).(*storagev1.Agent)
	paths := mask.GetPaths()
	switch {
	case len(paths) == 1 && paths[0] == "*":
		paths = paths[:0:0]
		for name := range changeable {
			paths = append(paths, name)
		}
	case len(paths) == 0:
		fields := a.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if a.ProtoReflect().Has(fields.Get(i)) {
				paths = append(paths, string(fields.Get(i).Name()))
			}
		}
	}
	for _, path := range paths {
		set := changeable[path]
		switch {
		case set != nil:
			set(next, a)
		case !outputOnly[path]:
			return nil, unknownField(path)
		}
	}
	return next, nil
}
