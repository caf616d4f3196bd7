// Package rest serves the RPCs of the contracts over HTTP. grpc-gateway routes a request by the contracts' HTTP annotations and fills
// the fields that path and query give; the body is decoded once, strictly, with errors that name the fault and its place. Unary RPCs are
// answered here, streams by package stream. It must not know the meaning of messages.
package rest
