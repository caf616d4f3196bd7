package mcp

import (
	"errors"
	"time"
)

// Task is a call that the server does by itself; its result can be had later by its id.
type Task struct {
	ID       string
	TTL      time.Duration // 0 where the server does not say
	Status   string        // working, input_required, completed, failed or cancelled
	Message  string
	Portable bool // it can be asked for over any connection
}

// TaskUse says whether a call is to be begun as a task, where the revision leaves that to the client.
type TaskUse int

// The uses.
const (
	TaskNever TaskUse = iota
	TaskAsked         // the tool can, and it would help
)

// ErrStopping ends calls because the pool stops. A task that any connection can ask for outlives it.
var ErrStopping = errors.New("the MCP pool is stopping")
