// Package inproc connects clients and services within one process by direct calls. It behaves like a
// network connection: server interceptors run; deadlines, cancellation, metadata, stream headers and error details reach the other
// side; messages are copied; and a handler sees nothing of the client's context but its deadline, cancellation and outgoing metadata.
//
// Unlike a network connection, it does not copy the messages of a handler that calls Share, nor those that a client with Sharing streams to
// it. It buffers a few messages of a stream instead of controlling the flow by bytes, and accepts text that is not valid UTF-8. Trailers,
// response headers of unary calls, and methods that stream only requests are not supported, because no service uses them. The package knows
// no service.
package inproc
