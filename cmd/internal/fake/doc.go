// Package fake has hand-written stand-ins for the services, for the tests of commands. Tasks are tapes: a test appends
// events, watchers read them. It is for tests only.
package fake
