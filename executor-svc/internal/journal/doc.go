// Package journal defines the interface of the store of tasks and agents. A transition is committed whole or not at all, and
// users see only what is committed. Package bolt implements it; journaltest tests an implementation against this contract.
//
// It must not know flows, planners or pools.
package journal
