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
func (r *run) models(ctx context.Context) Result {
	if r.subject.Models == nil {
		return Result{Status: Warning, Message: "it may have models asked, and this pool has no planner to ask through",
			Advice: "an operator starts the pool with --planner, or takes the permission away (--unset sampling)"}
	}
	ctx, cancel := context.WithTimeout(ctx, listing)
	defer cancel()
	names, err := r.subject.Models(ctx, r.subject.User)
	s := r.subject.Server
	switch model := s.Sampling.Model; {
	case err != nil:
		return Result{Status: Warning, Message: fmt.Sprintf("which models there are could not be found out: %v", err)}
	case len(names) == 0:
		return Result{Status: Warning, Message: "it may have models asked, and there are none that can be",
			Advice: "an operator names models in the file of the planner's --models"}
	case model == "":
		return Result{Message: "it may have asked what it hints at of " + list(names)}
	case !slices.Contains(names, model):
		return Result{Status: Warning, Message: fmt.Sprintf("it may have the model %q asked, which there is not; there are %s", model, list(names)),
			Advice: fmt.Sprintf("pawl mcp update %s --sampling MODEL, with a name of pawl models", s.ID)}
	default:
		return Result{Message: "it may have " + model + " asked"}
	}
}
