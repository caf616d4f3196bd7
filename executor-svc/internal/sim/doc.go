// Package sim simulates the executor; all of its code is in tests. Engine, runner, flows, the dispatcher of topics and the sender of webhooks run
// over a real journal; planner, pool, people and receivers are models. A scheduler with one seed runs one event at a time, in virtual time, and makes processes die,
// storage fail and connections break. A checker then compares what was recorded with what happened. Planted bugs test the
// checker.
//
// It must not know how the engine works inside: it sees only what crosses the engine's interfaces.
package sim
