// Package outbound makes HTTP clients that reach only permitted addresses: they check each address before they connect to it. The clients of MCP
// servers follow a redirect only if the request stays the same, and send headers and tokens only to the registered origin. The package
// must not know MCP.
package outbound
