// Package contextcache keeps what requests have told about tasks, so that the next request of a task sends only what is new. What is
// kept is a copy that may be dropped at any time: its sender has the original. The package knows no model, and does not look
// into what it keeps.
package contextcache
