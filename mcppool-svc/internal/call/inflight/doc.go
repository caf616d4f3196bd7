// Package inflight keeps the calls of a pool by id: the followers of running calls, the results of finished calls until they are
// acknowledged, and the ids that must not be called again. It reports the outcome NOT_EXECUTED only if that is certain. All that it keeps is
// bounded in number and in bytes. It makes no calls, and must not know connections or tools.
package inflight
