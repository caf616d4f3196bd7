// Package process runs one gRPC service as a process of its own: identity, telemetry, listener, serving, and the order of
// a stop (no new calls, running ones end, the service drains, its stores are closed). It knows no service.
package process
