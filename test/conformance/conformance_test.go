package conformance

import (
	"slices"
	"strings"
	"testing"
)

// clocked are scenarios that are judged by the clock: they run alone, and again if the machine was too busy.
var clocked = map[string]bool{"sse-retry": true}

// failures are the scenarios that fail, by revision, with the reasons; now there are none. A scenario that passes must not be here.
var failures = map[string]map[string]string{"2025-11-25": {}, "2026-07-28": {}}

// unscored are those that the suite runs and does not score (extensions of MCP), and that fail in each revision.
var unscored = map[string]string{
	"auth/enterprise-managed-authorization": "tokens of an organisation's identity provider are not exchanged",
	"auth/dpop":                             "tokens are not bound to a key",
	"auth/dpop-nonce":                       "tokens are not bound to a key",
	"auth/wif-jwt-bearer":                   "the pool has no workload identity",
}

// The client scenarios of the MCP conformance suite, each against the pool as a user has it.
func TestClientScenarios(t *testing.T) {
	s := install(t)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			r := s.requirements(t, revision)
			results := s.run(t, "--requirements", revision)
			for _, name := range r.Client {
				t.Run(name, func(t *testing.T) { s.judge(t, revision, name, results, failures[revision][name]) })
			}
			for _, o := range r.NotScored {
				if o.Leg == "client" {
					t.Run(o.Scenario, func(t *testing.T) { s.judge(t, revision, o.Scenario, results, unscored[o.Scenario]) })
				}
			}
			for name := range failures[revision] {
				if !slices.Contains(r.Client, name) {
					t.Errorf("the list of failures names %s, which is no scored scenario of %s", name, revision)
				}
			}
		})
	}
}

// judge compares the result of a scenario with the expected one.
func (s suite) judge(t *testing.T, revision, name string, results map[string]findings, reason string) {
	f, ran := results[name]
	for n := 1; clocked[name] && len(f.failed) > 0 && n < tries; n++ {
		f, ran = s.run(t, "--scenario", name, "--spec-version", revision, "--force")[name], true
	}
	switch {
	case !ran:
		t.Error("the suite has no result of it")
	case len(f.failed) > 0 && reason != "":
		t.Logf("fails, as expected: %s", reason)
	case len(f.failed) > 0:
		for _, c := range f.failed {
			t.Errorf("%s %s (%s): %s", c.Status, c.Name, c.ID, c.ErrorMessage)
		}
		t.Logf("the client said:\n%s", tail(f.said, 40))
	case f.passed == 0:
		t.Error("nothing was checked")
	case reason != "":
		t.Errorf("passes; take it off the list of failures, whose reason is: %s", reason)
	}
}

func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
