package bolt

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"pawl.dev/executor-svc/internal/journal"
)

// model keeps claims in simple lists.
type model struct {
	d     *due
	order []*modelTask // by when they became due
	tasks map[uuid.UUID]*modelTask
	last  uint64
	held  map[string]int
}

type modelTask struct {
	dueChange
	epoch uint64
	slot  bool
	// unseen: a command has arrived since the last claim.
	unseen bool
	due    bool
}

// In any order of events: no task has two owners, slots are bounded and go to the user with the fewest, a user's tasks are claimed in
// order, one of a turn at a time, and a claim leaves no task that it could have taken.
func TestClaimsAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{d: newDue(1 << 32), tasks: map[uuid.UUID]*modelTask{}, held: map[string]int{}}
		t.Repeat(map[string]func(*rapid.T){
			"create": m.create,
			"send":   m.send,
			"commit": m.commit,
			"claim":  m.claim,
			"yield":  m.yield,
			"":       m.check,
		})
	})
}

func (m *model) create(t *rapid.T) {
	task := &modelTask{dueChange: dueChange{id: uuid.New(), user: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "user"), turn: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "turn"), runs: true}}
	m.tasks[task.id] = task
	m.apply(task)
}

func (m *model) apply(task *modelTask) {
	m.d.apply(task.dueChange)
	task.sent = 0
	is := task.runs || task.commands
	if is && !task.due {
		m.order = append(m.order, task)
	}
	if !is && task.due {
		m.order = without(m.order, task)
	}
	task.due = is
}

func without(all []*modelTask, task *modelTask) (left []*modelTask) {
	for _, t := range all {
		if t != task {
			left = append(left, t)
		}
	}
	return left
}

// pick draws a task; with owned, one that has an owner.
func (m *model) pick(t *rapid.T, owned bool) *modelTask {
	var all []*modelTask
	for _, task := range m.tasks {
		if !owned || task.epoch != 0 {
			all = append(all, task)
		}
	}
	if len(all) == 0 {
		t.Skip("there is none")
	}
	// A map has no order; a draw must have one.
	best := all[0]
	n := rapid.Byte().Draw(t, "which")
	for _, task := range all {
		if task.id[15]-n < best.id[15]-n {
			best = task
		}
	}
	return best
}

func (m *model) send(t *rapid.T) {
	task := m.pick(t, false)
	task.commands, task.sent, task.unseen = true, 1, true
	m.apply(task)
}

func (m *model) commit(t *rapid.T) {
	task := m.pick(t, true)
	if owned := m.d.beginWrite(task.id, task.epoch); !owned {
		t.Fatal("the owner is refused")
	}
	if owned := m.d.beginWrite(task.id, task.epoch-1); owned {
		t.Fatal("an earlier owner is accepted")
	}
	task.runs = rapid.Bool().Draw(t, "runs")
	if rapid.Bool().Draw(t, "applies the commands") {
		task.commands, task.unseen = false, false
	}
	task.deadline = rapid.SampledFrom([]int64{0, 10, 1000}).Draw(t, "deadline")
	left := rapid.Bool().Draw(t, "yields while it is written")
	if left {
		m.d.yield(task.id, task.epoch)
		if owned := m.d.beginWrite(task.id, task.epoch); owned {
			t.Fatal("an owner that yielded is accepted")
		}
	}
	m.apply(task)
	m.d.endWrite(task.id)
	if left {
		m.release(task)
	}
}

func (m *model) release(task *modelTask) {
	if task.slot {
		m.held[task.user]--
	}
	task.epoch, task.slot = 0, false
}

func (m *model) yield(t *rapid.T) {
	task := m.pick(t, true)
	m.d.yield(task.id, task.epoch)
	m.release(task)
}

func (m *model) claim(t *rapid.T) {
	slots, most := rapid.IntRange(0, 4).Draw(t, "slots"), rapid.IntRange(1, 5).Draw(t, "max")
	now := int64(rapid.IntRange(0, 20).Draw(t, "now"))
	got := m.d.claim(journal.ClaimRequest{Now: time.Unix(0, now), Slots: slots, Max: most})
	if len(got.Claims) > most {
		t.Fatalf("%d claims, at most %d were asked for", len(got.Claims), most)
	}
	for _, c := range got.Claims {
		m.take(t, c, slots, now)
	}
	for _, task := range m.tasks {
		if len(got.Claims) == most || task.epoch != 0 {
			continue
		}
		switch {
		case task.due && m.slots() < slots && !m.blocked(task):
			t.Fatal("a slot is free, and a task that is due was left")
		case task.unseen && (m.slots() >= slots || m.blocked(task)):
			t.Fatal("a new command was left")
		case task.deadline != 0 && task.deadline <= now:
			t.Fatal("a deadline has passed, and its task was left")
		case task.deadline != 0 && (got.Next.IsZero() || got.Next.UnixNano() > task.deadline):
			t.Fatalf("the next deadline is %s, one is at %d", got.Next, task.deadline)
		}
	}
}

// take checks one claim and records it in the model.
func (m *model) take(t *rapid.T, c journal.Claim, slots int, now int64) {
	task := m.tasks[uuid.MustParse(c.TaskID)]
	if task.epoch != 0 || c.Epoch <= m.last {
		t.Fatalf("epoch %d after %d, of a task that is owned: %v", c.Epoch, m.last, task.epoch != 0)
	}
	m.last = c.Epoch
	if c.Slot {
		if m.fair(t, task); m.blocked(task) {
			t.Fatal("another task has the turn")
		}
		if m.held[task.user]++; m.slots() > slots {
			t.Fatalf("more than %d slots", slots)
		}
	} else if !task.unseen && (task.deadline == 0 || task.deadline > now) {
		t.Fatal("claimed without a slot for no reason")
	}
	task.epoch, task.slot, task.unseen = c.Epoch, c.Slot, false
}

// fair checks that no other task should have had the slot.
func (m *model) fair(t *rapid.T, task *modelTask) {
	for _, other := range m.order {
		if other == task {
			break
		}
		if other.user == task.user && other.epoch == 0 && !m.blocked(other) {
			t.Fatal("a task of the same user was due before")
		}
	}
	for _, other := range m.order {
		if other.epoch == 0 && !m.blocked(other) && m.held[other.user] < m.held[task.user] {
			t.Fatalf("%s holds %d slots, %s holds %d", task.user, m.held[task.user], other.user, m.held[other.user])
		}
	}
}

// blocked reports whether another task has the turn of a task.
func (m *model) blocked(task *modelTask) bool {
	for _, other := range m.tasks {
		if other != task && other.slot && other.user == task.user && other.turn == task.turn && task.turn != "" {
			return true
		}
	}
	return false
}

func (m *model) slots() (n int) {
	for _, held := range m.held {
		n += held
	}
	return n
}

// check compares due with the model, including how many tasks and users it keeps.
func (m *model) check(t *rapid.T) {
	kept := 0
	for _, task := range m.tasks {
		if task.due || task.epoch != 0 || task.deadline != 0 {
			kept++
		}
		if m.d.queued(task.id) != (task.due && !task.slot) {
			t.Fatal("queued is wrong")
		}
	}
	if len(m.d.tasks) != kept || m.d.usedSlots != m.slots() || len(m.d.users) > 3 || kept == 0 && len(m.d.users) > 0 {
		t.Fatalf("%d tasks, want %d; %d slots, want %d; %d users", len(m.d.tasks), kept, m.d.usedSlots, m.slots(), len(m.d.users))
	}
}
