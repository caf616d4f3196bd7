// Package landing is the page that a browser ends at after a login to an MCP server: it ends the login with what the
// browser brought, as whoever the browser is for the pool, or says how to end it on the command line. It keeps nothing, and
// shows nothing of what the browser brought.
package landing
