// Package task has the commands for tasks and the agents they run as, the view of a task's events, and the questions that tasks ask people.
package task
