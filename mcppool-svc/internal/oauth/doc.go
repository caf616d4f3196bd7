// Package oauth logs the pool in to MCP servers that ask for it: it finds their authorization server, begins and ends
// logins of people (authorization code with PKCE), gets tokens for the pool itself (client credentials), renews them and
// keeps them encrypted, each for one user and one server. It follows the authorization part of MCP, 2025-03-26 to
// 2026-07-28, and the RFCs that it names. It knows neither MCP's messages nor gRPC, and hands tokens only to connections.
package oauth
