// Package forward decides what of an HTTP request reaches the services beside its message: the caller's credential and
// the trace it belongs to, and nothing else. It is the only place that sets outgoing metadata, so no header of a client
// can ever pose as one that services send each other. It must not know any RPC.
package forward
