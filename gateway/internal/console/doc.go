// Package console serves the page that a browser reaches after a login to an MCP server. The page completes the login with the query
// parameters and the browser's own credential, or shows how to complete it on the command line. It stores nothing, and of the
// parameters it shows only the authorization server's error.
package console
