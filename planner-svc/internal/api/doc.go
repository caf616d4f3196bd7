// Package api is the gRPC face of the planner: each handler checks who calls, asks reasoning, and answers in the contract's
// words. It holds no reasoning of its own.
package api
