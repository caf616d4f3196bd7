// Package journal is the contract of the store that tasks live in: transitions are committed here, whole or not at all,
// and everything that is shown is read from here. The stores are in the packages below; journaltest holds each of them
// to this contract.
//
// It must not know flows, planners or pools.
package journal
