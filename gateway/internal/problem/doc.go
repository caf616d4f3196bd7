// Package problem writes every error of the gateway as problem details (RFC 9457): the one place that knows which HTTP
// status an error has. It must not know the origin of an error.
package problem
