// Package fakeauth is an authorization server, and a guard in front of an MCP server, for tests: both right unless a switch
// says otherwise, and both remember what they were asked.
package fakeauth
