package planner_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/digest"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// lacks checks that an error names the catalogs that the planner lacks.
func lacks(t testing.TB, what string, err error, hashes ...string) {
	t.Helper()
	isMissing(t, what, err)
	if got := errs.From(err).Metadata["catalogs"]; got != strings.Join(hashes, ",") {
		t.Errorf("%s: it lacks %q, want %v", what, got, hashes)
	}
}

// split returns a context whose tools are in two catalogs, without and with their tools.
func split(t testing.TB, tc *plannerv1.TaskContext) (named, full *plannerv1.TaskContext) {
	t.Helper()
	named, full = &plannerv1.TaskContext{Goal: tc.GetGoal(), History: tc.GetHistory()}, &plannerv1.TaskContext{Goal: tc.GetGoal(), History: tc.GetHistory()}
	at := len(tc.GetTools()) / 2
	for _, part := range [][2]int{{0, at}, {at, len(tc.GetTools())}} {
		tools := tc.GetTools()[part[0]:part[1]]
		hash, err := digest.Of(tools)
		if err != nil {
			t.Fatal(err)
		}
		named.Catalogs = append(named.Catalogs, &plannerv1.Catalog{Hash: hash})
		full.Catalogs = append(full.Catalogs, &plannerv1.Catalog{Hash: hash, Tools: tools})
	}
	return named, full
}

// Every call answers the same whether the context holds the tools, catalogs, or their hashes alone. A planner asks for a catalog that it was not sent
// since its start, and keeps it for all users.
func TestCatalogsAreKept(t *testing.T) {
	keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	token := keys.Ephemeral("executor", []identity.Role{identity.RoleService})
	alice, bob := identity.OnBehalfOf(t.Context(), "alice"), identity.OnBehalfOf(t.Context(), "bob")
	tc := task("How many Go files are there?")
	named, full := split(t, tc)
	hashes := []string{named.GetCatalogs()[0].GetHash(), named.GetCatalogs()[1].GetHash()}
	for start := range 2 {
		c := plannerv1.NewPlannerServiceClient(grpctest.Server(t, service(t).Register, serve.Options{Auth: keys})(token))
		asBob := calls(bob, t, c)
		first := true
		for rpc, call := range calls(alice, t, c) {
			if first {
				_, err := call(named)
				lacks(t, fmt.Sprint("after start ", start), err, hashes...)
				_, err = call(&plannerv1.TaskContext{Goal: tc.GetGoal(), Catalogs: []*plannerv1.Catalog{full.GetCatalogs()[0], named.GetCatalogs()[1]}})
				lacks(t, "after the first half", err, hashes[1])
				if _, err := call(full); err != nil {
					t.Fatal(err)
				}
				first = false
			}
			want, err := call(tc)
			if err != nil {
				t.Fatal(err)
			}
			for what, ask := range map[string]func() (any, error){
				"with the tools": func() (any, error) { return call(full) }, "with the hashes": func() (any, error) { return call(named) },
				"by another user": func() (any, error) { return asBob[rpc](full) },
			} {
				got, err := ask()
				if d := cmp.Diff(any(want), got, protocmp.Transform(), protocmp.IgnoreFields(&plannerv1.PlanStepsResponse{}, "context_name")); d != "" || err != nil {
					t.Errorf("%s %s: %v %s", rpc, what, err, d)
				}
			}
		}
		_, err := asBob["PlanSteps"](named)
		if err != nil {
			t.Errorf("a user lacks what another one has sent: %v", err)
		}
		name := plan(alice, t, c, named).GetContextName()
		plan(alice, t, c, &plannerv1.TaskContext{Base: name})
	}
}

// A catalog is kept under the hash of its content, whatever the request says, so that a user cannot give others wrong tools.
func TestHashesAreNotBelieved(t *testing.T) {
	c := client(t)
	tc := task("How many Go files are there?")
	named, full := split(t, tc)
	wrong := strings.Repeat("0", 64)
	for _, catalog := range full.GetCatalogs() {
		catalog.Hash = wrong
	}
	if _, err := c.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: full}); err != nil {
		t.Fatal(err)
	}
	_, err := c.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: &plannerv1.TaskContext{Goal: "g", Catalogs: []*plannerv1.Catalog{{Hash: wrong}}}})
	lacks(t, "the claimed hash", err, wrong)
	plan(t.Context(), t, c, named)
}

// BenchmarkVisibleTools is the first plan of a task whose tools are in a catalog that the planner has.
func BenchmarkVisibleTools(b *testing.B) {
	for _, planner := range []string{"playbook", "offline"} {
		for _, tools := range []int{10, 1000, 5000} {
			b.Run(fmt.Sprintf("%s/tools=%d", planner, tools), func(b *testing.B) {
				c, tc := inside(b), tenSteps(tools, 0)
				hash, err := digest.Of(tc.GetTools())
				if err != nil {
					b.Fatal(err)
				}
				tc.Catalogs = []*plannerv1.Catalog{{Hash: hash, Tools: tc.GetTools()}}
				if tc.Tools = nil; planner == "offline" {
					tc.Playbook, tc.Goal = "", "echo the text 'hello'"
				}
				if _, err := c.PlanSteps(b.Context(), &plannerv1.PlanStepsRequest{Context: tc, Begin: true}); err != nil {
					b.Fatal(err)
				}
				tc.Catalogs[0].Tools = nil
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.PlanSteps(b.Context(), &plannerv1.PlanStepsRequest{Context: tc, Begin: true}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
