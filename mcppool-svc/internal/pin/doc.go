// Package pin keeps, for each server, the tool definitions that may be used: those of the first review, those that a person approved, and
// those of new tools if the server's pinning accepts these. The package must not know users and connections.
package pin
