// Package outbound makes HTTP clients that reach only permitted addresses: it checks the addresses that are dialled, follows redirects only if the
// request stays the same, and adds headers and tokens at the registered origin alone. It must not know MCP.
package outbound
