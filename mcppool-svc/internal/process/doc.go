// Package process runs the children that stdio servers are: each in a process group of its own, with an environment of
// its own, gone with the pool whatever happens to it, reaped as soon as they exit, and ended as a group within a bounded
// time. It knows nothing of MCP: what goes through stdin and stdout is the caller's.
package process
