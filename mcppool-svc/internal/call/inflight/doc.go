// Package inflight knows the calls of a pool by id: who follows a running call, what a finished call returned until it is
// acknowledged, and which ids must not be called (again). It claims that nothing was executed only if that is certain. Everything
// in it is bounded in number and in bytes. It makes no calls, and knows neither connections nor tools.
package inflight
