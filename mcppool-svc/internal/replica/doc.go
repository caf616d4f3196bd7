// Package replica is a store whose entries can be told to other replicas of it, and theirs taken in: each has a version, and
// whatever way the entries of several replicas come together, all of them end with the same. It knows neither what values mean nor
// how replicas reach each other.
package replica
