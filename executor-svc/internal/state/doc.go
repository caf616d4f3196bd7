// Package state holds the tables of allowed status changes of tasks and steps. It must not know why a status changes.
package state
