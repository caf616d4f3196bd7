// Package gateway serves Pawl's gRPC services over HTTP: REST for every RPC with an HTTP annotation, streams as Server-Sent Events or
// NDJSON, problem details, OpenAPI with a page to read it, the page after a login to an MCP server, health and readiness. It runs in a
// process of its own or inside another program. It has no domain logic and no state: the services decide what a call means and who may make it.
package gateway
