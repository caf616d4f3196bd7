// Package executortest holds what tests of the executor share: an observer that sees each point at which a crash would matter, and the
// invariants of a task's events. Production code must not import it.
package executortest
