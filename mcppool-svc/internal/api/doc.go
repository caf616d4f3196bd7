// Package api answers the RPCs of McpPoolService: it knows who may see and change what, turns messages into the pool's own
// terms and back, and leaves the work to registry, conn and call. It also tests servers, step by step, and says what is wrong and what to do.
package api
