// Package serve is what every service's gRPC server has in common: what is around each call, health and
// reflection, listening, stopping gracefully, dialling. It knows no service.
//
// What is around each call, from the outermost; one interceptor does it all:
//
//  1. recovery: a panic becomes INTERNAL/UNKNOWN_ERROR, its stack is logged
//  2. errs: whatever the handler or what is further in returns becomes a status with details
//  3. logging: one line per call
//  4. authority: without API keys, only calls to a loopback name or address (DNS rebinding)
//  5. identity: the principal, or UNAUTHENTICATED
//  6. validation: size, then the rules in the proto; each message of a client stream
//
// Telemetry is a stats handler, outside of all of them.
package serve
