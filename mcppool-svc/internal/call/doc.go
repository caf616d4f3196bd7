// Package call takes a tool call from the request to its end: find the tool, validate the input, check the definition,
// execute, validate the result, record; with progress on the way, cancellation from the side, and an honest word on whether
// the tool ran wherever there is no result. Whether a call is made at all, or an earlier one followed, is the ledger's to
// say. It knows no storage and no permissions: who may call what was decided before.
package call
