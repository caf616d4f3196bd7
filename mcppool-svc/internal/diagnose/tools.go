package diagnose

import (
	"context"
	"fmt"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// shown is how many tools a message names.
const shown = 5

// definitions looks for tools that could not be called, and for effects that the operator has not set.
func (r *run) definitions(context.Context) *check {
	var broken []string
	assumed := 0
	for _, t := range r.tools.Tools {
		if t.Input != "" {
			if _, err := t.InputSchema(); err != nil {
				broken = append(broken, fmt.Sprintf("%s (%v)", t.Name, err))
			}
		}
		if r.subject.Server.Judge(t.Name, t.Hints).Effect == commonv1.Effect_EFFECT_WRITE {
			assumed++
		}
	}
	s := r.subject.Server
	var seen, advice []string
	if len(broken) > 0 {
		seen = append(seen, "tools whose input schema cannot be used, so that they cannot be called: "+list(broken))
		advice = append(advice, "report it to the maker of the server, or use another version of it")
	}
	if skipped := r.tools.Skipped; len(skipped) > 0 {
		seen = append(seen, "tools that are left out: "+list(skipped))
		advice = append(advice, "report it to the maker of the server")
	}
	if assumed == len(r.tools.Tools) && assumed > 0 && !s.Trusted && len(s.Policies) == 0 {
		seen = append(seen, "every tool counts as one that changes things, because no one said what they do: each call is asked about")
		advice = append(advice, "say what they do (--effect TOOL=read), or believe the server (--trusted), where you register it")
	}
	if len(seen) == 0 {
		return &check{Message: "the schemas can be used"}
	}
	return warning(strings.Join(seen, "; "), strings.Join(advice, "; "))
}

// approvals lists the tools that wait for an approval.
func (r *run) approvals(context.Context) *check {
	review, err := r.subject.Review(r.tools)
	if err != nil {
		return failure(err)
	}
	var held []string
	for _, t := range r.tools.Tools {
		if review.Holds(t.Name) {
			held = append(held, t.Name)
		}
	}
	if len(held) == 0 {
		return &check{Message: "nothing waits for one"}
	}
	return warning(count(len(held), "tool")+" quarantined, because new or changed: "+list(held), fmt.Sprintf("pawl mcp tools %s --quarantined shows them, pawl mcp approve %[1]s TOOL lets one be used", r.subject.Server.ID))
}

// list names the first few.
func list(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
