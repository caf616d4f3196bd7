// Package rest serves the RPCs over HTTP. grpc-gateway routes a request by the HTTP annotations of the protos and fills the fields
// of path and query. The body is decoded once, strictly, with errors that name the fault and its place. Unary RPCs are answered here,
// streams by package stream. The package must not know the meaning of messages.
package rest
