// Package gateway serves Pawl's gRPC services over HTTP: REST for every RPC, streams as Server-Sent Events and NDJSON, problem
// details, OpenAPI with a page to read it, health and readiness. It runs in a process of its own or inside another one,
// over given connections. It has no domain logic and no state: the services decide what a call means and who may
// make it.
package gateway
