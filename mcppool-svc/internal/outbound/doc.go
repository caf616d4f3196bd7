// Package outbound makes HTTP clients that reach only permitted addresses: they check each address before they connect to it. The clients of MCP
// servers also follow redirects only if the request stays the same, and send registered headers and tokens to the registered origin only. The
// package must not know MCP.
package outbound
