// Package inproc connects clients and services within one process by direct calls. For both sides it is what a network
// connection is: server interceptors run, deadlines, cancellation, metadata, headers of streams and error details pass,
// messages are copied, and a handler sees nothing of the client's context but its deadline, its end and its outgoing
// metadata. Messages of a stream whose handler calls Share, and of a client that uses Sharing, are not
// copied. Unlike a network connection it buffers a few messages instead of controlling the flow by bytes, and it does not refuse text
// that is not valid UTF-8; trailers, headers of unary calls, and methods that stream
// requests alone do not pass, because no service has them. It knows no service.
package inproc
