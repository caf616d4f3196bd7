// Package pin keeps the tool definitions that may be used, for each server: those of the first review, those approved since, and
// later new ones if its pinning allows that. It looks at definitions only, not at users, and connects to no server.
package pin
