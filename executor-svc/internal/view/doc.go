// Package view derives what clients see (tasks, steps, waits, events) from what is stored.
package view
