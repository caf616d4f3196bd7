// Package grpctest serves gRPC services to tests in memory, with the real interceptors of package serve. It is for tests
// only and knows no service.
package grpctest
