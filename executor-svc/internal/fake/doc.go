// Package fake has a planner that follows a script and a pool whose tools echo, for tests: both behave as their contracts
// say, and let a test see, hold and fail what they do.
package fake
