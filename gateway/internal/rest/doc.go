// Package rest serves the RPCs as REST: it finds the route, reads and checks the request, and hands it to grpc-gateway,
// or to the stream handler where the RPC streams. It must not know what an RPC does; which there are is in the contracts.
package rest
