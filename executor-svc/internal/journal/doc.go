// Package journal defines the interface of the store of tasks and agents. A transition is committed whole or not at all, and
// users see only what is committed. Package bolt implements the interface; journaltest tests an implementation against it.
//
// The package must not know flows, planners or pools.
package journal
