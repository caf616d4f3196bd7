// Package fake has a planner that follows a script and a pool whose tools echo, for tests: both follow their contracts,
// and a test can observe, delay and fail their calls.
package fake
