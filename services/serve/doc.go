// Package serve holds what every gRPC server and process of the suite shares: the interceptor around each call, health and reflection,
// listening, graceful stop, dialling, and running a service as a process of its own. It knows no service.
//
// The interceptor does the following, from the outermost:
//
//  1. recovery: a panic becomes INTERNAL/UNKNOWN_ERROR, its stack is logged
//  2. errs: errors of the handler and of the steps below become a status with details
//  3. logging: one line per call
//  4. authority: without API keys, only calls to a loopback name or address (DNS rebinding)
//  5. identity: the principal, or UNAUTHENTICATED
//  6. validation of each message received: its size, then the rules in the proto
//
// Telemetry is a stats handler, outside the interceptor.
package serve
