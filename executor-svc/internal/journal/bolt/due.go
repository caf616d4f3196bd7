package bolt

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
)

// due knows which tasks are due or owned, and which user is next. It is built when the file is opened and updated once
// changes are durable. A crash loses only claims, which end with the process anyway.
type due struct {
	mu sync.Mutex // guards the fields below
	// epoch grows with each claim; it begins above those of all earlier processes.
	epoch uint64
	// tick orders when tasks became due and when users were served.
	tick  uint64
	held  int // slots
	tasks map[uuid.UUID]*dueTask
	users map[string]*dueUser
	// turns holds the users with due tasks that have no owner.
	turns indexed[*dueUser]
	// asked holds tasks without an owner that have new commands.
	asked indexed[*dueTask]
	// timed holds tasks without an owner that have a deadline.
	timed indexed[*dueTask]
}

// dueTask is a task that is due or owned or has a deadline.
type dueTask struct {
	id       uuid.UUID
	user     *dueUser
	runs     bool   // in INIT or RUNNING
	commands bool   // in its inbox
	last     uint64 // counts commands that arrived
	seen     uint64 // `last` when it was claimed last
	since    uint64 // the tick at which it became due
	deadline int64

	epoch   uint64 // of its owner; 0: none
	slot    bool
	writing int  // changes of its owner that are not durable yet
	left    bool // its owner yielded while it was writing

	atTurn, atAsked, atTimed int // in heaps
}

// dueUser is a user with tasks that are due or owned.
type dueUser struct {
	name   string
	held   int    // slots
	served uint64 // the tick of the newest slot
	tasks  int    // that point here
	queue  indexed[*dueTask]
	atTurn int
}

// dueChange is the effect of a durable change on a task's place in due.
type dueChange struct {
	id   uuid.UUID
	user string
	// gone: the task was deleted.
	gone     bool
	runs     bool
	commands bool
	// sent counts new commands.
	sent     uint64
	deadline int64
}

func newDue(epoch uint64) *due {
	d := &due{epoch: epoch, tasks: map[uuid.UUID]*dueTask{}, users: map[string]*dueUser{}}
	d.turns = indexed[*dueUser]{less: before, index: func(u *dueUser) *int { return &u.atTurn }}
	d.asked = indexed[*dueTask]{less: longer, index: func(t *dueTask) *int { return &t.atAsked }}
	d.timed = indexed[*dueTask]{
		less:  func(a, b *dueTask) bool { return a.deadline < b.deadline },
		index: func(t *dueTask) *int { return &t.atTimed },
	}
	return d
}

func longer(a, b *dueTask) bool { return a.since < b.since }

// before orders users: the one with fewer slots is first, then the one who waits longer.
func before(a, b *dueUser) bool {
	if a.held != b.held {
		return a.held < b.held
	}
	return a.waits() < b.waits()
}

// waits returns the tick since which a user waits. Being served ends a wait, however old the rest of the queue is.
func (u *dueUser) waits() uint64 {
	t, ok := u.queue.first()
	if !ok {
		return u.served
	}
	return max(t.since, u.served)
}

// apply records a durable change.
func (d *due) apply(c dueChange) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[c.id]
	if c.gone {
		if t != nil {
			t.runs, t.commands, t.deadline = false, false, 0
			d.free(t)
		}
		return
	}
	if t == nil {
		t = &dueTask{id: c.id, user: d.user(c.user)}
		t.user.tasks++
		d.tasks[c.id] = t
	}
	was := t.runs || t.commands
	t.runs, t.commands, t.deadline = c.runs, c.commands, c.deadline
	t.last += c.sent
	if !was && (t.runs || t.commands) {
		d.tick++
		t.since = d.tick
	}
	d.place(t)
}

func (d *due) user(name string) *dueUser {
	u := d.users[name]
	if u == nil {
		u = &dueUser{name: name}
		u.queue = indexed[*dueTask]{less: longer, index: func(t *dueTask) *int { return &t.atTurn }}
		d.users[name] = u
	}
	return u
}

// place moves a task to the heaps that it belongs to now.
func (d *due) place(t *dueTask) {
	u, free := t.user, t.epoch == 0
	keep(&u.queue, t, free && (t.runs || t.commands))
	keep(&d.asked, t, free && t.commands && t.last > t.seen)
	keep(&d.timed, t, free && t.deadline != 0)
	keep(&d.turns, u, u.queue.Len() > 0)
	if free && t.atTurn == 0 && t.atTimed == 0 && d.tasks[t.id] == t {
		delete(d.tasks, t.id)
		// The user can be forgotten: a task that becomes due later is newer than the user's last slot.
		if u.tasks--; u.tasks == 0 {
			delete(d.users, u.name)
		}
	}
}

// keep adds an entry to a heap, moves it in there, or takes it out.
func keep[T any](h *indexed[T], x T, belongs bool) {
	if belongs {
		h.put(x)
	} else {
		h.remove(x)
	}
}

// claim implements Journal.Claim.
func (d *due) claim(r journal.ClaimRequest) journal.Claims {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []journal.Claim
	for len(all) < r.Max && d.held < r.Slots {
		u, ok := d.turns.first()
		if !ok {
			break
		}
		t, _ := u.queue.first()
		all = append(all, d.own(t, true))
	}
	for len(all) < r.Max && d.held >= r.Slots {
		t, ok := d.asked.first()
		if !ok {
			break
		}
		all = append(all, d.own(t, false))
	}
	for len(all) < r.Max {
		t, ok := d.timed.first()
		if !ok || t.deadline > r.Now.UnixNano() {
			break
		}
		all = append(all, d.own(t, false))
	}
	claims := journal.Claims{Claims: all}
	if t, ok := d.timed.first(); ok {
		claims.Next = time.Unix(0, t.deadline)
	}
	return claims
}

func (d *due) own(t *dueTask, slot bool) journal.Claim {
	d.epoch++
	t.epoch, t.slot, t.seen = d.epoch, slot, t.last
	if slot {
		d.tick++
		d.held++
		t.user.held++
		t.user.served = d.tick
	}
	d.place(t)
	return journal.Claim{TaskID: t.id.String(), Epoch: t.epoch, Slot: slot}
}

// lost returns the ids of claims that do not hold.
func (d *due) lost(claims []journal.Claim) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lost []string
	for _, c := range claims {
		id, err := uuid.Parse(c.TaskID)
		if t := d.tasks[id]; err != nil || t == nil || t.epoch != c.Epoch {
			lost = append(lost, c.TaskID)
		}
	}
	return lost
}

// yield ends a claim. If the owner's last change is not durable yet, the claim ends when it is.
func (d *due) yield(id uuid.UUID, epoch uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	switch {
	case t == nil || t.epoch != epoch || epoch == 0:
	case t.writing > 0:
		t.left = true
	default:
		d.free(t)
	}
}

func (d *due) free(t *dueTask) {
	if t.slot {
		d.held--
		t.user.held--
	}
	t.epoch, t.slot, t.left = 0, false, false
	d.place(t)
}

// begin reports whether a task is owned with this epoch. If so, the task cannot be claimed until end.
func (d *due) begin(id uuid.UUID, epoch uint64) (owned bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	if t == nil || epoch == 0 || t.epoch != epoch || t.left {
		return false
	}
	t.writing++
	return true
}

// end must be called once for each begin, when the change is durable or refused.
func (d *due) end(id uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	if t == nil || t.writing == 0 {
		return
	}
	if t.writing--; t.writing == 0 && t.left {
		d.free(t)
	}
}

// queued reports whether a task could go on and waits for a slot.
func (d *due) queued(id uuid.UUID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	return t != nil && (t.runs || t.commands) && !t.slot
}

// hasNoCommands reports whether the inbox of a task that is due or owned is empty.
func (d *due) hasNoCommands(id uuid.UUID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	return t != nil && !t.commands
}
