// Package store keeps the data that must outlive the pool's process: small values by bucket and key, in one file or, without a
// folder, in memory. It does not know what the values mean.
package store
