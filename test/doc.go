// Package test runs whole Pawls: the same cases over gRPC and REST, in one process and against the real binaries.
//
// What shows the acceptance ids of the coding flow; cases are files of cases/coding:
//
//	D1   go, javascript, max-loops, refused-plan, permanent-error
//	D2   executor-svc/internal/state (tables as properties); cancel-subtask, cancel-running-call, refused-plan
//	D3   wrong-patch, max-loops, no-tool-call, plan-change
//	D4   the model of every case refuses a request that lacks a part (modeltest.Coders); max-loops for the window of calls
//	D5   bad-arguments
//	D6   go, wrong-patch (changes, backups), person-edits; TestCodingKilled
//	D7   executor-svc/internal/flow/coding (properties of the graph); plan-cycle, plan-never-usable, cancel-subtask, max-loops, edited-plan,
//	     one-file-two-lanes, waits-newest-first, fork-lanes
//	D8   mcppool-svc/internal/call; bad-arguments, changed-by-another, one-file-two-lanes, person-edits
//	D9   rejected-write, dangerous, refused-plan, waits-newest-first, missing-permission
//	D10  executor-svc/internal/flow (classes of errors); bad-arguments, missing-permission, permanent-error
//	D11  executor-svc/internal/flow/step, mcppool-svc/internal/call (retries); bad-arguments, rejected-write, missing-permission, permanent-error
//	D12  mcppool-svc/workspace (each tool, escapes); go, javascript, dangerous, changed-by-another, one-file-two-lanes; TestCodingKilled,
//	     TestCodeThroughTheCLI
//	D13  planner-svc/internal/plan (prompts, budgets); plan-cycle, fork-lanes
package test
