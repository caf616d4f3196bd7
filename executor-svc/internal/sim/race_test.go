//go:build race

package sim

// usualSeeds is how many seeds a normal run simulates.
const usualSeeds = 150

// leastSame is how many seeds of TestReplay must give the same trace again: the race detector shuffles on purpose.
const leastSame = 0
