// Package toolcall is what calling tools of MCP servers has in common for tasks and completions: listing the tools of several servers, checking inputs, and reading
// results and errors. It knows no task.
package toolcall
