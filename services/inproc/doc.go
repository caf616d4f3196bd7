// Package inproc connects clients and services within one process by direct calls. For both sides it is what a network
// connection is: server interceptors run, deadlines, cancellation, metadata, headers, trailers and error details pass,
// messages are copied, and a handler sees nothing of the client's context but its deadline, its end and its outgoing
// metadata. Not copied are the messages of a stream whose handler says Share, and whose client says Sharing for its own.
// Two things are less than on a network: there is no flow control by bytes but a few messages of buffer, and text that is
// not valid UTF-8 is not refused. It knows no service.
package inproc
