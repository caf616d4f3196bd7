//go:build race

package sim

// usualSeeds is how many seeds a normal run simulates.
const usualSeeds = 150
