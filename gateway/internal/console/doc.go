// Package console holds the pages for people. So far it has one: the page that a browser reaches after a login to an MCP server. It
// completes the login with what the browser brought and the browser's own credential, or says how to complete it on the command line.
// It stores nothing, and shows nothing of what the browser brought.
package console
