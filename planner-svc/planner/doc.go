// Package planner is the planner service as a part of a program: it answers what an executor asks about tasks, with models.
// What it keeps of them is a copy that it may lose at any time. It knows no store, no MCP server and no other service.
package planner
