// Package conn is the pool of connections: one connection per server, user and configuration, made when first needed, shared by
// that user's sessions and calls, closed when unused, replaced when it dies or its configuration changes, and
// bounded in number. It knows neither the protocol nor the requests that a connection carries.
package conn
