// Package state holds the tables of allowed status changes of tasks and steps (A4–A6). It must not know why a status changes.
package state
