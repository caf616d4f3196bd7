// Package inflight keeps the calls of a pool by id: the followers of running calls, the results of finished calls until they are
// acknowledged, and the ids that must not be called again. It returns NOT_EXECUTED only if that is certain. Everything in it is bounded
// in number and in bytes. It makes no calls, and knows neither connections nor tools.
package inflight
