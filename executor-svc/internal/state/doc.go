// Package state holds the tables of allowed status changes of tasks, steps, agents and subtasks. It must not know why a status changes.
package state
