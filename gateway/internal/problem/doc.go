// Package problem writes errors as problem details (RFC 9457). It alone knows which HTTP status a gRPC error has.
// It must not know the origin of an error.
package problem
