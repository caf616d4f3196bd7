// Package catalog reads tool definitions, keeps them exactly as a server sent them, and caches those of one connection until the server
// reports a change, for five minutes at most. Definitions are untrusted data: names must be unique and keys unambiguous. The package
// knows neither users nor permissions.
package catalog
