// Package journaltest tests an implementation of package journal against its contract. Each test gets an empty store.
package journaltest
