// Package peer lets the replicas of the pool tell each other what was written to any of them: a write is pushed to those in reach
// before it is acknowledged, and what was missed is pulled. It knows entries and versions, not what they mean.
package peer
