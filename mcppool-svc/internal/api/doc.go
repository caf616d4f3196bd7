// Package api answers the RPCs of McpPoolService: it checks permissions, converts messages to the pool's own types and back, and leaves
// the work to registry, conn and call. It also tests servers step by step and reports faults with advice.
package api
