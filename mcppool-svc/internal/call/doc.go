// Package call takes a tool call from the request to its end: find the tool, validate the input, check the definition,
// execute, validate the result, record; with progress, cancellation, and an outcome that says whether the tool ran if there is
// no result. Package inflight decides whether a call is made or an earlier one followed. Package call must not know storage.
package call
