// Package oauth logs the pool in to MCP servers that require a login. It finds the authorization server, begins and finishes
// logins of people (authorization code with PKCE), gets tokens for the pool itself (client credentials), renews tokens, and
// stores them encrypted, each for one user and one server. It follows the authorization part of MCP, 2025-03-26 to
// 2026-07-28, and the RFCs that MCP names. It must not know MCP's messages or gRPC, and passes tokens only to connections.
package oauth
