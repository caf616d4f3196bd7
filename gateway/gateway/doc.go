// Package gateway is the HTTP face of the suite: REST for every RPC, streams as Server-Sent Events and NDJSON, problem
// details, OpenAPI with a page to read it, health and readiness. It runs in a process of its own or inside another one,
// over whatever connections it is given. It holds no domain logic and no state: what a call means is the services' business,
// and so is who may make it.
package gateway
