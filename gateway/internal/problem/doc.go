// Package problem writes every error of the gateway as problem details (RFC 9457). It alone knows which HTTP status an error has.
// It must not know the origin of an error.
package problem
