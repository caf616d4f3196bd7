// Package pipeline implements CompletionService: a call of a language model with MCP tools worked in. A request passes through processors, each of which does one thing;
// the package stores nothing, and reaches models only through the planner and tools only through the MCP pool.
package pipeline
