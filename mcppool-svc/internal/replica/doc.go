// Package replica is a store whose entries can be exchanged with other replicas. Each entry has a version; replicas that have exchanged all
// entries, in any order, hold the same ones. It knows neither what values mean nor how replicas reach each other.
package replica
