package bolt

import (
	"bytes"
	"cmp"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/tidwall/btree"

	"pawl.dev/executor-svc/internal/journal"
)

// due holds the tasks that are due or owned or have a deadline, and decides which user is next. It is built when the file is opened
// and updated once changes are durable. A crash loses only claims, which end with the process anyway.
type due struct {
	mu sync.Mutex // guards the fields below
	// epoch grows with each claim; it begins above those of all earlier processes.
	epoch uint64
	// tick is a logical clock: it orders when tasks became due and when users got slots.
	tick      uint64
	usedSlots int
	tasks     map[uuid.UUID]*dueTask
	users     map[string]*dueUser
	// waitingUsers holds the users with due tasks that have no owner.
	waitingUsers *btree.BTreeG[*dueUser]
	// withCommands holds tasks without an owner that have new commands, withDeadline those that have a deadline.
	withCommands, withDeadline *btree.BTreeG[*dueTask]
}

// dueTask is a task that is due or owned or has a deadline.
type dueTask struct {
	id              uuid.UUID
	user            *dueUser
	runs            bool   // in INIT or RUNNING
	commands        bool   // its inbox is not empty
	received        uint64 // grows with each new command
	receivedAtClaim uint64 // the value of received at the newest claim
	since           uint64 // the tick at which it became due
	deadline        int64  // in nanoseconds since 1970; 0: none

	turn string // see TaskHead; empty: none

	epoch   uint64 // of its owner; 0: none
	slot    bool
	writing int  // changes of its owner that are not durable yet
	yielded bool // its owner yielded while it was writing
}

// dueUser is a user with tasks that are due or owned.
type dueUser struct {
	name      string
	usedSlots int
	served    uint64                  // the tick of the newest slot
	tasks     int                     // number of dueTasks of this user
	queue     *btree.BTreeG[*dueTask] // due tasks without an owner; of those of a turn, the one that is next, if no other has a slot
	turns     map[string]*turn
}

// turn is a line of tasks of which at most one has a slot.
type turn struct {
	holder *dueTask                // has a slot; nil: none
	queue  *btree.BTreeG[*dueTask] // due tasks without an owner
}

// dueChange is what a durable change means for due: the task's new values.
type dueChange struct {
	id   uuid.UUID
	user string
	// gone reports that the task was deleted.
	gone     bool
	turn     string
	runs     bool
	commands bool
	// sent is added to received.
	sent     uint64
	deadline int64
}

func newDue(epoch uint64) *due {
	return &due{
		epoch: epoch, tasks: map[uuid.UUID]*dueTask{}, users: map[string]*dueUser{},
		waitingUsers: newSet(servedFirst), withCommands: newSet(dueEarlier), withDeadline: newSet(func(a, b *dueTask) bool {
			return cmp.Or(cmp.Compare(a.deadline, b.deadline), bytes.Compare(a.id[:], b.id[:])) < 0
		}),
	}
}

func newSet[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// dueEarlier orders due tasks. No two tasks became due at the same tick.
func dueEarlier(a, b *dueTask) bool { return a.since < b.since }

// servedFirst orders users: the one with fewer slots is first, then the one who has waited longer.
func servedFirst(a, b *dueUser) bool {
	return cmp.Or(cmp.Compare(a.usedSlots, b.usedSlots), cmp.Compare(a.waitingSince(), b.waitingSince()), cmp.Compare(a.name, b.name)) < 0
}

// waitingSince returns the tick since which a user waits. A slot ends the wait, however old the rest of the queue is.
func (u *dueUser) waitingSince() uint64 {
	t, ok := u.queue.Min()
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
	if t == nil {
		if c.gone {
			return
		}
		t = &dueTask{id: c.id, user: d.user(c.user)}
		t.user.tasks++
		d.tasks[c.id] = t
	}
	d.change(t, func() {
		wasDue := t.isDue()
		t.turn, t.runs, t.commands, t.deadline = c.turn, c.runs, c.commands, c.deadline
		t.received += c.sent
		if !wasDue && t.isDue() {
			d.tick++
			t.since = d.tick
		}
		if c.gone {
			d.free(t)
		}
	})
}

func (t *dueTask) isDue() bool { return t.runs || t.commands }

func (d *due) user(name string) *dueUser {
	u := d.users[name]
	if u == nil {
		u = &dueUser{name: name, queue: newSet(dueEarlier), turns: map[string]*turn{}}
		d.users[name] = u
	}
	return u
}

// change takes a task out of the sets, because their order depends on what changes, and puts it into those that it belongs to then.
func (d *due) change(t *dueTask, change func()) {
	u := t.user
	d.waitingUsers.Delete(u) // first: its order depends on its queue
	u.leave(t)
	d.withCommands.Delete(t)
	d.withDeadline.Delete(t)
	change()
	free := t.epoch == 0
	u.enter(t)
	if free && t.commands && t.received > t.receivedAtClaim {
		d.withCommands.Set(t)
	}
	if free && t.deadline != 0 {
		d.withDeadline.Set(t)
	}
	if u.queue.Len() > 0 {
		d.waitingUsers.Set(u)
	}
	if free && !t.isDue() && t.deadline == 0 && d.tasks[t.id] == t {
		delete(d.tasks, t.id)
		// The user can be forgotten: a task that becomes due later is newer than the user's last slot.
		if u.tasks--; u.tasks == 0 {
			delete(d.users, u.name)
		}
	}
}

// leave takes a task out of its user's queue, and the next task of its turn: which one that is may change.
func (u *dueUser) leave(t *dueTask) {
	u.queue.Delete(t)
	if k := u.turns[t.turn]; k != nil {
		if next, ok := k.queue.Min(); ok {
			u.queue.Delete(next)
		}
		k.queue.Delete(t)
		if k.holder == t {
			k.holder = nil
		}
	}
}

// enter puts a task into its user's queue if it is due and has no owner; of a turn, the next task if no other has a slot.
func (u *dueUser) enter(t *dueTask) {
	waits := t.epoch == 0 && t.isDue()
	if t.turn == "" {
		if waits {
			u.queue.Set(t)
		}
		return
	}
	k := u.turns[t.turn]
	if k == nil {
		k = &turn{queue: newSet(dueEarlier)}
		u.turns[t.turn] = k
	}
	if waits {
		k.queue.Set(t)
	}
	if t.slot {
		k.holder = t
	}
	if k.holder != nil {
		return
	}
	if next, ok := k.queue.Min(); ok {
		u.queue.Set(next)
	} else {
		delete(u.turns, t.turn)
	}
}

// claim makes the caller the owner of tasks as Claim of journal.Tasks says.
func (d *due) claim(r journal.ClaimRequest) journal.Claims {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []journal.Claim
	for len(all) < r.Max && d.usedSlots < r.Slots {
		u, ok := d.waitingUsers.Min()
		if !ok {
			break
		}
		t, _ := u.queue.Min()
		all = append(all, d.own(t, true))
	}
	for len(all) < r.Max { // no slot is free, or another task has the turn
		t, ok := d.withCommands.Min()
		if !ok {
			break
		}
		all = append(all, d.own(t, false))
	}
	for len(all) < r.Max {
		t, ok := d.withDeadline.Min()
		if !ok || t.deadline > r.Now.UnixNano() {
			break
		}
		all = append(all, d.own(t, false))
	}
	claims := journal.Claims{Claims: all}
	if t, ok := d.withDeadline.Min(); ok {
		claims.Next = time.Unix(0, t.deadline)
	}
	return claims
}

func (d *due) own(t *dueTask, slot bool) journal.Claim {
	d.change(t, func() {
		d.epoch++
		t.epoch, t.slot, t.receivedAtClaim = d.epoch, slot, t.received
		if slot {
			d.tick++
			d.usedSlots++
			t.user.usedSlots++
			t.user.served = d.tick
		}
	})
	return journal.Claim{TaskID: t.id.String(), Epoch: t.epoch, Slot: slot}
}

// lost returns the tasks of claims that no longer hold.
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

// yield ends a claim. While changes of the owner are being written, it leaves that to the last endWrite.
func (d *due) yield(id uuid.UUID, epoch uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	switch {
	case t == nil || t.epoch != epoch || epoch == 0:
	case t.writing > 0:
		t.yielded = true
	default:
		d.change(t, func() { d.free(t) })
	}
}

// free ends a claim; called in a change.
func (d *due) free(t *dueTask) {
	if t.slot {
		d.usedSlots--
		t.user.usedSlots--
	}
	t.epoch, t.slot, t.yielded = 0, false, false
}

// beginWrite reports whether a task is owned with this epoch. If so, the task cannot be claimed until endWrite.
func (d *due) beginWrite(id uuid.UUID, epoch uint64) (owned bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	if t == nil || epoch == 0 || t.epoch != epoch || t.yielded {
		return false
	}
	t.writing++
	return true
}

// endWrite must be called once for each beginWrite that returned true, when the change is durable or refused.
func (d *due) endWrite(id uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	if t == nil || t.writing == 0 {
		return
	}
	if t.writing--; t.writing == 0 && t.yielded {
		d.change(t, func() { d.free(t) })
	}
}

// queued reports whether a task could continue and waits for a slot.
func (d *due) queued(id uuid.UUID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	return t != nil && t.isDue() && !t.slot
}

// inboxKnownEmpty reports whether a task's inbox is empty; false if due does not hold the task.
func (d *due) inboxKnownEmpty(id uuid.UUID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	return t != nil && !t.commands
}
