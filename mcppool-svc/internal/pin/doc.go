// Package pin keeps the tool definitions that may be used, for each server: those of the first review, those approved since, and with
// some pinnings later new ones. It looks at definitions only, not at users, and connects to no server.
package pin
