package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"

	"pawl.dev/services/span"
)

// What a journal answers beside success. Anything else is an error of the storage itself: what was submitted may be submitted
// again. It is not stored, but for a disk that failed at the very moment that decides: then the second try is answered with
// ErrStale, and reading the task says whether the first one was stored.
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
	// ErrNotEnded: the task has not ended.
	ErrNotEnded = errors.New("the task has not ended")
	// ErrDamaged: what is stored cannot be read.
	ErrDamaged = errors.New("the journal is damaged")
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("the journal is closed")
)

// Limited is Create's answer to a user with too many requests (A28).
type Limited struct {
	// Requests were made within Window.
	Requests int
	Window   time.Duration
	// RetryAfter is when the next one is taken.
	RetryAfter time.Duration
}

func (l *Limited) Error() string {
	return fmt.Sprintf("%d requests within %s; the next one is taken in %s", l.Requests, span.Text(l.Window), span.AtLeast(l.RetryAfter))
}

// Journal keeps tasks and agents. All methods may be called concurrently. What a call returned as done survives a crash,
// and nothing that is not durable is ever read.
type Journal interface {
	Tasks
	Agents
	// Close waits for what was submitted and releases the store.
	Close() error
}

// Tasks keeps tasks.
type Tasks interface {
	// Create stores a new task with its first transition, unclaimed. Where the user has a task with that request_id
	// already, that one's id is returned and nothing is stored; ErrRequestReused where it came from a different request;
	// *Limited where the user had too many requests. Repeated requests do not count as such; those of deleted tasks do.
	Create(ctx context.Context, n NewTask) (id string, created bool, err error)
	// Admit says what Create would say to a new request of this user now: nil or *Limited.
	Admit(ctx context.Context, user string, a Admission) error
	// FindRequest returns the task that a user's request_id created. ErrNotFound.
	FindRequest(ctx context.Context, user, requestID string) (*Task, error)
	// Commit stores a transition and returns once it is durable. ErrStale where t.Checkpoint.Rev does not follow the
	// stored one or t.Epoch is not that of the task's claim, ErrNotFound where the task does not exist.
	Commit(ctx context.Context, t Transition) error
	// Send puts a command into a task's inbox and returns its number; the task becomes due. Numbers grow.
	Send(ctx context.Context, taskID string, c *storagev1.Command) (uint64, error)
	// Claim makes the caller the owner of tasks that are due and have none.
	//
	// A task is due where it is in INIT or RUNNING, where there are commands in its inbox, and where its deadline has
	// passed. While there is a free slot it is claimed with one. While there is none, those with commands in their inbox
	// are claimed without, so that what starts nothing can be folded in; again so only once a further command has come.
	// Deadlines end tasks and need no slot. Slots go to the user who holds the fewest, then to the one who has waited the
	// longest; a user's tasks are taken in the order in which they became due.
	//
	// Each claim has an epoch greater than those of all claims of that task before it, also across restarts.
	Claim(ctx context.Context, r ClaimRequest) (Claims, error)
	// Renew makes claims last for a lease from now, and returns the ids of those that are none any more: another owner may
	// have the task. A store that only one process can open has nothing to renew.
	Renew(ctx context.Context, claims []Claim, now time.Time, lease time.Duration) (lost []string, err error)
	// Yield gives a claim up; the task may be claimed again once it is due. A claim that was lost is none any more.
	Yield(ctx context.Context, taskID string, epoch uint64) error
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
	// Delete removes a task that has ended, with its records and the payloads that nothing else refers to. ErrNotEnded,
	// ErrNotFound.
	Delete(ctx context.Context, taskID string) error
	// Sweep deletes tasks that ended before a time, the oldest first, at most max of them, and says how many. Its cost
	// does not depend on how many tasks there are. Damaged ones are left, and each is part of one error (ErrDamaged).
	Sweep(ctx context.Context, endedBefore time.Time, max int) (int, error)
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
	// Records hold the facts 1 … Checkpoint.LastSeq; one record, or more where the task is a fork.
	Records   []Record
	Admission Admission
}

// Admission bounds the requests of one user (A28).
type Admission struct {
	// Now is the time of the request.
	Now time.Time
	// Requests are taken within Window; 0: any number.
	Requests int
	Window   time.Duration
}

// ClaimRequest says what to claim.
type ClaimRequest struct {
	Now time.Time
	// Slots is how many tasks may be owned with a slot at once, in the whole installation (A28).
	Slots int
	// Max is how many tasks to claim.
	Max int
	// Lease is how long the claims last unless a commit renews them; a store that only one process can open ignores it.
	Lease time.Duration
}

// Claims is what Claim found.
type Claims struct {
	Claims []Claim
	// Next is the earliest deadline of a task that nobody owns; zero where there is none.
	Next time.Time
}

// Claim is the ownership of a task.
type Claim struct {
	TaskID string
	Epoch  uint64
	// Slot says that the task may run; else only what starts nothing may be folded in.
	Slot bool
}

// Transition is what Commit stores.
type Transition struct {
	TaskID string
	// Epoch is that of the owner's claim.
	Epoch uint64
	// Head is the task's, unchanged; stores index by it.
	Head *storagev1.TaskHead
	// Checkpoint replaces the stored one, whose Rev must be one less.
	Checkpoint *storagev1.Checkpoint
	// Deadline is when the task becomes due by itself while it waits; zero: never.
	Deadline time.Time
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
	// Queued says that the task could go on and waits for a slot.
	Queued bool
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
