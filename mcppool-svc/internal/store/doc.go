// Package store keeps the pool's lasting data: small values by bucket and key, in one file. Without a folder they are in memory, and lost with
// the process. It does not know what the values mean.
package store
