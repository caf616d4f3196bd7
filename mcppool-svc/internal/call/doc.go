// Package call runs a tool call from the request to its end: resolve the tool, validate the input, check the permission, look in the
// cache, execute, validate the result, cache it, record the call. An error carries an outcome: whether the tool ran. The package also
// reads resources and prompts. Package inflight decides whether a request starts a call or follows an earlier one. Package call must
// not know storage.
package call
