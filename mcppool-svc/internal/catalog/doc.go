// Package catalog reads tool definitions, exactly as a server sent them, and keeps those of one connection until the
// server says that they changed. Definitions are untrusted data: names must be unique and keys unambiguous.
// It knows neither users nor what tools may do.
package catalog
