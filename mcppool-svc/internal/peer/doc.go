// Package peer replicates writes between the replicas of the pool: a write is pushed to the reachable peers before it is acknowledged, and
// missed entries are pulled. It knows entries and versions, not what they mean.
package peer
