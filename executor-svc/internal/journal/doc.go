// Package journal defines the interface of the store of tasks and agents. A transition is committed whole or not at all, and
// everything that users see is read from the store. Package bolt implements it; journaltest tests an implementation against
// this contract.
//
// It must not know flows, planners or pools.
package journal
