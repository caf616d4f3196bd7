// Package executortest provides, for tests of the executor, an observer of the points at which a crash would matter, and a checker of
// the invariants of a task's events. Production code must not import it.
package executortest
