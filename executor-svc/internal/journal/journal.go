package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"

	"pawl.dev/services/humantime"
)

// The errors of a journal, besides *Limited and *Full. After any other error the change is not stored and may be submitted again. If the disk or the
// program failed while the change was made durable, read the task to see whether the change is stored, if necessary after a restart.
var (
	// ErrNotFound: there is no such task, topic, message or delivery, or the user has no such request, agent or webhook.
	ErrNotFound = errors.New("not found")
	// ErrStale: the task was changed by another writer; load it again.
	ErrStale = errors.New("the task was changed by another writer")
	// ErrExists: an agent or webhook with this id exists.
	ErrExists = errors.New("exists already")
	// ErrRequestReused: the request_id belongs to a different request.
	ErrRequestReused = errors.New("request_id was used for a different request")
	// ErrInvalid: the change can never be stored; do not submit it again.
	ErrInvalid = errors.New("cannot be stored")
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("another process has the store open")
	// ErrNotEnded: the task has not ended.
	ErrNotEnded = errors.New("the task has not ended")
	// ErrDamaged: stored data cannot be read.
	ErrDamaged = errors.New("the journal is damaged")
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("the journal is closed")
)

// Limited is the error of Create and Post for a user with too many requests.
type Limited struct {
	// Requests were made within Window.
	Requests int
	Window   time.Duration
	// RetryAfter is how long to wait until the next request is accepted.
	RetryAfter time.Duration
}

func (l *Limited) Error() string {
	return fmt.Sprintf("%d requests within %s; the next one is accepted in %s", l.Requests, humantime.Text(l.Window), humantime.AtLeast(l.RetryAfter))
}

// Full is the error of Create and CreateTopic for a user whose tasks and topics take too many bytes. A topic counts for the user who created it.
type Full struct{ Used, Limit int64 }

func (f *Full) Error() string {
	return fmt.Sprintf("the user's tasks and topics take %d bytes of the journal, and %d are allowed", f.Used, f.Limit)
}

// Journal stores tasks, agents, topics and webhooks. All methods may be called concurrently. A change that was acknowledged survives a crash,
// and readers see only durable changes.
type Journal interface {
	Tasks
	Agents
	Topics
	Webhooks
	// Close waits for submitted changes and releases the store.
	Close() error
}

// Tasks stores tasks.
type Tasks interface {
	// Create stores a new task with its first transition and without an owner. If the user already has a task with that request_id,
	// Create returns that task's id and stores nothing, or ErrRequestReused if a different request created it. *Limited if the user
	// had too many requests, *Full if the user's tasks take too many bytes. Repeated requests do not count; requests whose tasks were deleted do.
	Create(ctx context.Context, n NewTask) (id string, created bool, err error)
	// Admit returns what Create would return for a new request of this user now: nil, *Limited or *Full.
	Admit(ctx context.Context, user string, a Admission) error
	// FindRequest returns the task that a user's request_id created. ErrNotFound.
	FindRequest(ctx context.Context, user, requestID string) (*Task, error)
	// Commit stores a transition and returns once it is durable. ErrStale if t.Checkpoint.Rev does not follow the stored
	// rev or t.Epoch is not the epoch of the task's claim, ErrNotFound if the task does not exist.
	Commit(ctx context.Context, t Transition) error
	// Send puts a command into a task's inbox and returns its number; the task becomes due. Later commands have greater numbers.
	Send(ctx context.Context, taskID string, c *storagev1.Command) (uint64, error)
	// Claim makes the caller the owner of tasks that are due and have no owner.
	//
	// A task is due if it is in INIT or RUNNING, if there are commands in its inbox, or if its deadline has passed. Tasks of
	// the first two kinds are claimed with a slot while a slot is free. While no slot is free, tasks with new commands are claimed without
	// one, so that commands that start nothing can be applied. Such a task is claimed without a slot again only after another command.
	// A deadline needs no slot, because applying it starts nothing. Slots go to the user with the fewest slots, then to the user who
	// has waited longest; a user's tasks are claimed in the order in which they became due.
	//
	// Tasks of one user with the same TaskHead.turn take turns: while one of them has an owner with a slot, for the others no slot is free.
	//
	// The epoch of a claim is greater than all earlier epochs of the task, also across restarts.
	Claim(ctx context.Context, r ClaimRequest) (Claims, error)
	// Renew extends claims by a lease from now, and returns the tasks whose claims were lost: another owner may have them. In
	// a store that only one process can open, claims do not expire.
	Renew(ctx context.Context, claims []Claim, now time.Time, lease time.Duration) (lost []string, err error)
	// Yield releases a claim; the task may be claimed again when it is due. Yielding a lost claim does nothing.
	Yield(ctx context.Context, taskID string, epoch uint64) error
	// Inbox returns the commands that no transition has applied, in order.
	Inbox(ctx context.Context, taskID string) ([]Command, error)
	// Load returns a task. ErrNotFound.
	Load(ctx context.Context, taskID string) (*Task, error)
	// Records returns the records that hold facts with a seq greater than after, oldest first: the first such record, and as many
	// more as fit into about maxBytes.
	Records(ctx context.Context, taskID string, after uint64, maxBytes int) ([]Record, error)
	// List returns a page of one user's tasks, newest first.
	List(ctx context.Context, q Query) (Page, error)
	// Delete removes a task that has ended, with its records and the payloads that no other task refers to. ErrNotEnded,
	// ErrNotFound.
	Delete(ctx context.Context, taskID string) error
	// Sweep deletes at most max tasks that ended before a time, oldest first, and returns how many. Its cost does not depend
	// on the number of stored tasks. It leaves damaged tasks and reports them in one error (ErrDamaged).
	Sweep(ctx context.Context, endedBefore time.Time, max int) (int, error)
	// Healthy returns why changes cannot be stored now, or nil.
	Healthy() error
}

// Agents stores agents, per user.
type Agents interface {
	// PutAgent stores an agent. With ifRev 0 the agent must not exist (ErrExists); otherwise the stored agent must have rev ifRev
	// (ErrStale, ErrNotFound).
	PutAgent(ctx context.Context, user, id string, a *storagev1.Agent, ifRev uint64) error
	// Agent returns an agent. ErrNotFound.
	Agent(ctx context.Context, user, id string) (*storagev1.Agent, error)
	// ListAgents returns agents with ids greater than after, by id.
	ListAgents(ctx context.Context, user, after string, limit int) ([]AgentEntry, error)
	// DeleteAgent removes an agent. With ifRev other than 0 the stored agent must have rev ifRev (ErrStale). ErrNotFound.
	DeleteAgent(ctx context.Context, user, id string, ifRev uint64) error
}

// Topics stores topics: settings, facts, and the messages that wait to be dispatched to agents. A topic's facts are numbered 1, 2, 3 … without gaps.
type Topics interface {
	// CreateTopic stores a new topic with its first facts. If its creator already has a topic with that request_id, CreateTopic returns that topic's id and stores
	// nothing, or ErrRequestReused if a different request created it. *Full if the creator's tasks and topics take maxBytes or more; 0: any number.
	CreateTopic(ctx context.Context, id string, t *storagev1.Topic, facts []*storagev1.TopicFact, maxBytes int64) (existing string, created bool, err error)
	// Topic returns a topic. ErrNotFound.
	Topic(ctx context.Context, id string) (*Topic, error)
	// UpdateTopic stores a topic's new settings and the facts about them. ErrStale if t.Rev does not follow the stored rev, ErrNotFound.
	UpdateTopic(ctx context.Context, id string, t *storagev1.Topic, now time.Time, facts []*storagev1.TopicFact) error
	// Post adds facts to a topic. If they hold a message whose id the topic has, Post stores nothing and returns the seq of that message, and false; if
	// p.Dispatched is not in the outbox, it stores nothing and returns 0 and false. Otherwise it returns the seq of the first fact. ErrNotFound, *Limited.
	Post(ctx context.Context, p Post) (seq uint64, posted bool, err error)
	// TopicRecords returns the records that hold facts with a seq greater than after, oldest first: the first such record, and as many more as fit into about
	// maxBytes.
	TopicRecords(ctx context.Context, id string, after uint64, maxBytes int) ([]TopicRecord, error)
	// Messages returns a page of a topic's messages. ErrNotFound.
	Messages(ctx context.Context, q MessageQuery) (MessagePage, error)
	// Message returns a message by its id. ErrNotFound.
	Message(ctx context.Context, topicID, messageID string) (*TopicMessage, error)
	// Summary returns an agent's newest summary of a topic that no rollback reaches; nil if there is none. ErrNotFound if there is no such topic.
	Summary(ctx context.Context, topicID, agent string) (*storagev1.TopicSummary, error)
	// ListTopics returns a page of a user's topics, the one with the newest message first. ErrInvalid if q.From is no position.
	ListTopics(ctx context.Context, q TopicQuery) (TopicPage, error)
	// DeleteTopic removes a topic, and disables its webhooks. If it has agents, an entry in the outbox names their owners, so that their tasks end. ErrStale if
	// the topic's rev is another one, ErrNotFound.
	DeleteTopic(ctx context.Context, id string, rev uint64) error
	// SweepTopics deletes, as DeleteTopic does, at most max archived topics without messages after a time, oldest first, and returns how many. It leaves damaged topics and reports
	// them in one error (ErrDamaged).
	SweepTopics(ctx context.Context, activeBefore time.Time, max int) (int, error)
	// Outbox returns the first entries with numbers greater than after that wait to be dispatched, oldest first. A message is put there with its post if the
	// topic has agents and the message is not rolled back; so are a fact that ends tasks (EndsTasks), an interruption and a deletion. The topic may have been
	// deleted since.
	Outbox(ctx context.Context, after uint64, max int) ([]Outgoing, error)
	// Dispatched removes entries from the outbox.
	Dispatched(ctx context.Context, numbers []uint64) error
}

// Post is an addition to a topic's facts.
type Post struct {
	TopicID string
	Now     time.Time
	// Facts hold at most one message, or several if a task posts them. A rollback among them marks the seqs from RolledBack.ToSeq + 1 up to its own.
	Facts []*storagev1.TopicFact
	// Interrupts, if set, ends an agent's tasks for messages that were posted before, and keeps it from beginning with these. Its seq is ignored. Such a post
	// may have no facts.
	Interrupts *storagev1.Interruption
	// Summary, if set, becomes the agent's newest summary.
	Summary *storagev1.TopicSummary
	// User is who posts, and Admission bounds the user's posts apart from requests for tasks; its Bytes are ignored. Repeated posts do not count. Tasks' posts have
	// neither.
	User      string
	Admission Admission
	// Answers is the seq of the message that the facts are about. If it was rolled back, a message among the facts is rolled back too. 0: none.
	Answers uint64
	// Dispatched is the number of a message in the outbox, which leaves it with the post; 0: none. Only for Post.
	Dispatched uint64
}

// Topic is a stored topic.
type Topic struct {
	ID string
	*storagev1.Topic
	State *storagev1.TopicState
}

// RolledBack reports whether the fact with this seq was rolled back.
func (t *Topic) RolledBack(seq uint64) bool {
	return slices.ContainsFunc(t.State.GetRolledBack(), func(r *storagev1.SeqRange) bool { return r.GetFirst() <= seq && seq <= r.GetLast() })
}

// Interrupted reports whether an agent was interrupted after the fact with this seq.
func (t *Topic) Interrupted(agent string, seq uint64) bool {
	return slices.ContainsFunc(t.State.GetInterruptions(), func(i *storagev1.Interruption) bool { return i.GetAgent() == agent && seq <= i.GetSeq() })
}

// AgentOwners returns the users who added the topic's agents. The tasks of agents that left have ended.
func AgentOwners(t *storagev1.Topic) (users []string) {
	for _, p := range t.GetParticipants() {
		if p.GetAgentId() != "" && !slices.Contains(users, p.GetAddedBy()) {
			users = append(users, p.GetAddedBy())
		}
	}
	return users
}

// EndsTasks reports whether a fact ends tasks: the topic is rolled back, or an agent leaves it.
func EndsTasks(f *storagev1.TopicFact) bool {
	return f.GetRolledBack() != nil || f.GetParticipantLeft().GetParticipant().GetAgentId() != ""
}

// TopicRecord is a stored record of a topic with the seq of its first fact.
type TopicRecord struct {
	FirstSeq uint64
	*storagev1.TopicRecord
}

// MessageQuery selects messages.
type MessageQuery struct {
	TopicID string
	// From is the seq of the last message of the previous page; 0 for the first page.
	From uint64
	// OldestFirst lists from the oldest message on, otherwise from the newest.
	OldestFirst bool
	// RolledBack lists messages that were rolled back too.
	RolledBack bool
	Limit      int
	// MaxBytes bounds the page: it ends with the message that reaches it; 0: no bound.
	MaxBytes int
}

// MessagePage is a page of messages.
type MessagePage struct {
	Messages []TopicMessage
	More     bool
}

// TopicMessage is a stored message.
type TopicMessage struct {
	Seq uint64
	// Time is nanoseconds since 1970.
	Time int64
	// TaskID is the task that posted it; empty if a person did.
	TaskID string
	// RolledBack reports that the topic was rolled back to an earlier message.
	RolledBack bool
	*storagev1.TopicMessage
}

// TopicQuery selects the topics to list.
type TopicQuery struct {
	User string
	// From is the position after the previous page, as TopicPage.Next gave it; empty for the first page.
	From string
	// Archived lists archived topics too.
	Archived bool
	// AgentID selects topics that have this agent, added by the user; empty: all.
	AgentID string
	Limit   int
}

// TopicPage is a page of topics.
type TopicPage struct {
	Topics []*Topic
	// Next is where the list continues; empty at its end.
	Next string
}

// Outgoing is an entry of the outbox.
type Outgoing struct {
	No uint64
	*storagev1.Outgoing
}

// NewTask is the input of Create.
type NewTask struct {
	// ID is a NewID of Head.CreateTime: ids sort by creation, and lists by time find tasks by their ids.
	ID         string
	Head       *storagev1.TaskHead
	Checkpoint *storagev1.Checkpoint
	// Records hold the facts 1 … Checkpoint.LastSeq; one record, or more if the task is a fork.
	Records   []Record
	Admission Admission
	// Outgoing is the number of the message in the outbox that the task considers; 0: none. Its entry then names the task's agent.
	Outgoing uint64
}

// NewID returns an id for a task that is created at a time, in Unix nanoseconds: a UUID of version 7 with that time, in milliseconds.
func NewID(created int64) string {
	id := uuid.Must(uuid.NewV7())
	var millis [8]byte
	binary.BigEndian.PutUint64(millis[:], uint64(created/int64(time.Millisecond)))
	copy(id[:6], millis[2:])
	return id.String()
}

// Admission bounds the requests of one user.
type Admission struct {
	// Now is the time of the request.
	Now time.Time
	// Requests is how many are accepted within Window; 0 means any number.
	Requests int
	Window   time.Duration
	// Bytes is how many bytes the user's tasks may take before new ones are refused; 0 means any number. A task counts with its head, checkpoint,
	// records and payloads, also those that it shares.
	Bytes int64
}

// ClaimRequest is the input of Claim.
type ClaimRequest struct {
	Now time.Time
	// Slots is how many tasks of the whole installation may have an owner with a slot at once.
	Slots int
	// Max is how many tasks to claim.
	Max int
	// Lease is how long the claims last unless a commit renews them; a store that only one process can open ignores it.
	Lease time.Duration
}

// Claims is the result of Claim.
type Claims struct {
	Claims []Claim
	// Next is the earliest deadline of a task without an owner; zero if there is none.
	Next time.Time
}

// Claim is the ownership of a task.
type Claim struct {
	TaskID string
	Epoch  uint64
	// Slot reports that the task may run; otherwise only commands that start nothing, and deadlines, may be applied.
	Slot bool
}

// Transition is the input of Commit.
type Transition struct {
	TaskID string
	// Epoch is the epoch of the owner's claim.
	Epoch uint64
	// Head is the task's head, which never changes; stores index by it.
	Head *storagev1.TaskHead
	// Checkpoint replaces the stored checkpoint. Its Rev must be the stored Rev plus 1.
	Checkpoint *storagev1.Checkpoint
	// Deadline is when the task becomes due without a command; zero: never.
	Deadline time.Time
	// Record holds the facts; nil if there are none. Its last fact has seq Checkpoint.LastSeq.
	Record *storagev1.Record
	// Applied holds the numbers of the commands that the checkpoint now includes. They leave the inbox.
	Applied []uint64
	// Post is stored with the transition; nil if there is none. If its topic no longer exists, the transition is stored without it; if the topic has one of its
	// messages, without that message.
	Post *Post
}

// Task is a stored task.
type Task struct {
	ID         string
	Head       *storagev1.TaskHead
	Checkpoint *storagev1.Checkpoint
	// Queued reports that the task could continue and waits for a slot.
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

// Query selects the tasks to list.
type Query struct {
	User string
	// Before is the id of the last task of the previous page; empty for the first page.
	Before         string
	Limit          int
	Statuses       []executorv1.ExecutorStatus
	AgentID        string
	ConversationID string
	// CreatedAfter is inclusive, CreatedBefore is not; zero: no bound.
	CreatedAfter  time.Time
	CreatedBefore time.Time
}

// Page is a page of tasks.
type Page struct {
	Tasks []*Task
	// More reports that the list continues after the last task.
	More bool
}

// AgentEntry is an agent with its id.
type AgentEntry struct {
	ID string
	*storagev1.Agent
}
