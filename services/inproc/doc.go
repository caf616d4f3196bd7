// Package inproc connects clients and services within one process by direct calls. It behaves like a
// network connection: server interceptors run; deadlines, cancellation, metadata, stream headers and error details reach the other
// side; messages are copied; and a handler sees only the deadline, cancellation and outgoing metadata of the client's context.
//
// Unlike a network connection, it shares the messages of a handler that calls Share, and those that a client with Sharing streams to such a
// handler. It buffers a few messages of a stream instead of controlling the flow by bytes, and accepts text that is not valid UTF-8. Trailers,
// response headers of unary calls, and methods that stream only requests are not supported, because no service uses them. The package knows
// no service.
package inproc
