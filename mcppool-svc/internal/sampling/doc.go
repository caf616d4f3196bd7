// Package sampling has language models asked through the planner, for MCP servers that an operator allows it. It knows the planner's
// contract, and neither the protocol of MCP nor a provider of models.
package sampling
