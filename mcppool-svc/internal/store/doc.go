// Package store keeps what must outlive the pool's process: small values by bucket and key, in one file or, where there is
// no folder, in memory. It knows nothing of what the values mean.
package store
