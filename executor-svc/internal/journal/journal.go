package journal

import (
	"context"
	"errors"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// What a journal answers beside success. Anything else is an error of the storage itself: what was submitted is not
// stored, and may be submitted again.
var (
	// ErrNotFound: there is no such task or agent for that user.
	ErrNotFound = errors.New("not found")
	// ErrStale: the task was changed by another writer; load it again.
	ErrStale = errors.New("the task was changed by another writer")
	// ErrExists: an agent of that id exists.
	ErrExists = errors.New("exists already")
	// ErrRequestReused: the request_id belongs to a different request.
	ErrRequestReused = errors.New("request_id was used for a different request")
	// ErrInvalid: what was submitted can never be stored; submitting it again is of no use.
	ErrInvalid = errors.New("cannot be stored")
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("another process has the store open")
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("the journal is closed")
)

// Journal keeps tasks and agents. All methods may be called concurrently. What a call returned as done survives a crash.
type Journal interface {
	Tasks
	Agents
	// Close waits for what was submitted and releases the store.
	Close() error
}

// Tasks keeps tasks.
type Tasks interface {
	// Create stores a new task with its first transition. Where the user has a task with that request_id already, that
	// one's id is returned and nothing is stored; ErrRequestReused where it came from a different request.
	Create(ctx context.Context, n NewTask) (id string, created bool, err error)
	// FindRequest returns the task that a user's request_id created. ErrNotFound.
	FindRequest(ctx context.Context, user, requestID string) (*Task, error)
	// Commit stores a transition and returns once it is durable. ErrStale where t.Checkpoint.Rev does not follow the
	// stored one, ErrNotFound where the task does not exist.
	Commit(ctx context.Context, t Transition) error
	// Send puts a command into a task's inbox and returns its number; the task becomes runnable. Numbers grow.
	Send(ctx context.Context, taskID string, c *storagev1.Command) (uint64, error)
	// Load returns a task with its inbox. ErrNotFound.
	Load(ctx context.Context, taskID string) (*Task, error)
	// Inbox returns the commands that no transition has folded in, in order.
	Inbox(ctx context.Context, taskID string) ([]Command, error)
	// Peek returns a task without its inbox. ErrNotFound.
	Peek(ctx context.Context, taskID string) (*Task, error)
	// Records returns the records that hold facts with a seq greater than after, oldest first; at least one where there
	// is one, and then as many as fit into about maxBytes.
	Records(ctx context.Context, taskID string, after uint64, maxBytes int) ([]Record, error)
	// List returns a page of one user's tasks, newest first.
	List(ctx context.Context, q Query) (Page, error)
	// Runnable returns the ids of all tasks that an owner has to take up: those in INIT or RUNNING, and those with
	// commands in their inbox. Oldest first. Its cost does not depend on how many tasks have ended.
	Runnable(ctx context.Context) ([]string, error)
}

// Agents keeps agents, per user.
type Agents interface {
	// PutAgent stores an agent. With ifRev 0 it is created (ErrExists); else the stored one must have that rev (ErrStale, ErrNotFound).
	PutAgent(ctx context.Context, user, id string, a *storagev1.Agent, ifRev uint64) error
	// Agent returns an agent. ErrNotFound.
	Agent(ctx context.Context, user, id string) (*storagev1.Agent, error)
	// ListAgents returns agents with ids greater than after, by id.
	ListAgents(ctx context.Context, user, after string, limit int) ([]AgentEntry, error)
	// DeleteAgent removes an agent; with ifRev other than 0 only that rev (ErrStale). ErrNotFound.
	DeleteAgent(ctx context.Context, user, id string, ifRev uint64) error
}

// NewTask is what Create stores.
type NewTask struct {
	// ID is a UUID (version 7), so that ids sort by creation.
	ID         string
	Head       *storagev1.TaskHead
	Checkpoint *storagev1.Checkpoint
	Record     *storagev1.Record
}

// Transition is what Commit stores.
type Transition struct {
	TaskID string
	// Head is the task's, unchanged; stores index by it.
	Head *storagev1.TaskHead
	// Checkpoint replaces the stored one, whose Rev must be one less.
	Checkpoint *storagev1.Checkpoint
	// Record holds the facts; nil where there are none. Its last fact has seq Checkpoint.LastSeq.
	Record *storagev1.Record
	// Folded holds the numbers of the commands that are now part of the checkpoint.
	Folded []uint64
}

// Task is a task as it is stored.
type Task struct {
	ID         string
	Head       *storagev1.TaskHead
	Checkpoint *storagev1.Checkpoint
	// Inbox holds the commands that no transition has folded in, in order.
	Inbox []Command
}

// Command is a command in an inbox.
type Command struct {
	No uint64
	*storagev1.Command
}

// Record is a stored record with the seq of its first fact.
type Record struct {
	FirstSeq uint64
	*storagev1.Record
}

// Query says which tasks to list.
type Query struct {
	User string
	// Before is the id of the last task of the page before; empty for the first page.
	Before         string
	Limit          int
	Statuses       []executorv1.ExecutorStatus
	AgentID        string
	ConversationID string
	CreatedAfter   time.Time
	CreatedBefore  time.Time
}

// Page is a page of tasks, without inboxes.
type Page struct {
	Tasks []*Task
	// More says that the list goes on after the last task.
	More bool
}

// AgentEntry is an agent with its id.
type AgentEntry struct {
	ID string
	*storagev1.Agent
}
