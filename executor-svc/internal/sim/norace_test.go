//go:build !race

package sim

// usualSeeds is how many seeds a normal run simulates.
const usualSeeds = 6000

// leastSame is how many seeds of TestReplay must give the same trace again.
const leastSame = 15
