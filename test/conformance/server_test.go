package conformance

import (
	"slices"
	"strings"
	"testing"

	"pawl.dev/test/rig"
)

// serverFailures are the server scenarios that fail, by revision, with the reasons. A scenario that passes must not be here.
var serverFailures = map[string]map[string]string{
	"2025-11-25": {
		"tools-call-sampling":   "a server's requests for a model are answered by Pawl's models, if an operator allows them, not by the client's",
		"resources-subscribe":   "resources are watched since 2026-07-28 only: sessions are not kept",
		"resources-unsubscribe": "resources are watched since 2026-07-28 only: sessions are not kept",
	},
	"2026-07-28": {
		"server-stateless":                              "the tool asks for a model, which Pawl answers for, not the client",
		"input-required-result-basic-sampling":          "a server's requests for a model are answered by Pawl's models",
		"input-required-result-basic-list-roots":        "a server's requests for roots are answered with those that an operator configured",
		"input-required-result-multiple-input-requests": "requests for models and roots are answered by Pawl, and questions are asked one after another",
		"input-required-result-non-tool-request":        "prompts that ask their user are not supported by the pool",
		"input-required-result-capability-check":        "servers see the pool's capabilities, not the client's",
	},
}

// The server scenarios of the MCP conformance suite, against /mcp/{server} in front of the Go SDK's everything-server: over stdio for the revision with
// sessions, over HTTP for the one without.
func TestServerScenarios(t *testing.T) {
	s := install(t)
	program := rig.GoEverything(t, "..")
	addr := rig.FreeAddr(t)
	rig.Start(t, program, "-http", addr)
	read := map[string]any{"*": map[string]any{"effect": "read"}} // no approvals
	target := rig.InProcess(t, rig.Options{Servers: map[string]any{
		"2025": map[string]any{"command": program, "tools": read, "pinning": "trust_all"},
		"2026": map[string]any{"url": "http://" + addr, "tools": read, "pinning": "trust_all"},
	}})
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			r := s.requirements(t, revision)
			results := map[string]findings{}
			for name, f := range s.collect(t, []string{"server", "--url", target.HTTP + "/mcp/" + revision[:4], "--requirements", revision}) {
				results[strings.TrimPrefix(name, "server-")] = f
			}
			for _, name := range r.Server {
				t.Run(name, func(t *testing.T) { s.judge(t, revision, name, results, serverFailures[revision][name]) })
			}
			for name := range serverFailures[revision] {
				if !slices.Contains(r.Server, name) {
					t.Errorf("the list of failures names %s, which is no scored scenario of %s", name, revision)
				}
			}
		})
	}
}
