// Package cache keeps results of tools that only read, for a while, for the user who got them. It is bounded in number and in
// bytes, and fair between users. What may be kept, and when a kept result is the wrong one, is said by who asks: through the
// key. It knows neither tools nor permissions.
package cache
