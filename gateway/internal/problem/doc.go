// Package problem writes every error of the gateway as problem details (RFC 9457): the one place that knows which HTTP
// status an error has. It must not know where an error comes from.
package problem
