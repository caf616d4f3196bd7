package diagnose

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// listing bounds how long the planner may take to list models.
const listing = 10 * time.Second

// models checks the model that the server may ask: a wrong name would otherwise show only in the middle of a call.
func (r *run) models(ctx context.Context) *check {
	if r.subject.Models == nil {
		return warning("it may have models asked, and this pool has no planner to ask through",
			"an operator starts the pool with --planner, or takes the permission away (--unset sampling)")
	}
	ctx, cancel := context.WithTimeout(ctx, listing)
	defer cancel()
	names, err := r.subject.Models(ctx, r.subject.User)
	s := r.subject.Server
	switch model := s.Sampling.Model; {
	case err != nil:
		return warning(fmt.Sprintf("which models there are could not be found out: %v", err), "")
	case len(names) == 0:
		return warning("it may have models asked, and there are none that can be", "an operator names models in the file of the planner's --models")
	case model == "":
		return &check{Message: "it may have asked what it hints at of " + list(names)}
	case !slices.Contains(names, model):
		return warning(fmt.Sprintf("it may have the model %q asked, which there is not; there are %s", model, list(names)),
			fmt.Sprintf("pawl mcp update %s --sampling MODEL, with a name of pawl models", s.ID))
	default:
		return &check{Message: "it may have " + model + " asked"}
	}
}
