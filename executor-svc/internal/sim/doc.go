// Package sim is the executor's simulation, all of it in tests: engine, runner and flow over a real journal, with a planner,
// a pool and people that are models. A scheduler that is drawn from one seed lets one thing happen at a time, in virtual
// time, and lets processes die, storage fail and connections break; a checker then looks at what was recorded and at what
// really happened. The checker itself is tested with planted bugs.
//
// It must not know how the engine works inside: it sees what crosses the engine's interfaces.
package sim
