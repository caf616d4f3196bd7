// Package journaltest holds every journal to the contract of package journal. Each test gets a fresh store.
package journaltest
