// Package rest serves RPCs over HTTP. grpc-gateway routes a request by the HTTP annotations of the protos and sets the fields that
// come from path and query. The body is decoded strictly, with errors that name the fault and its place. Unary RPCs are answered here,
// streams by package stream. Conn forwards the client's credential. The package must not know the meaning of messages.
package rest
