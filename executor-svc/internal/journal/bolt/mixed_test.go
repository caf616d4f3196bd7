package bolt_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// mix runs concurrent writers and holds the changes that were acknowledged, by task.
type mix struct {
	t *testing.T
	s *bolt.Store

	mu   sync.Mutex // guards what follows
	revs map[string]uint64
	sent map[string]int
	owns map[string]uint64
	last uint64 // the highest number of a command, over all rounds
	busy func() // called once enough tasks were written
}

// Changes are stored, are refused, or make the batch fail that they share with others: after a restart the acknowledged ones are
// there and no others, also if the store is closed meanwhile.
func TestMixedChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	m := &mix{t: t}
	for round := range 4 {
		busy := make(chan struct{})
		m.s, m.revs, m.sent, m.owns = open(t, path), map[string]uint64{}, map[string]int{}, map[string]uint64{}
		m.busy = sync.OnceFunc(func() { close(busy) })
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(m.work)
		}
		if round%2 == 1 {
			<-busy
			m.close()
		}
		wg.Wait()
		m.close()
		m.s = open(t, path)
		m.check()
		m.close()
	}
}

func (m *mix) close() {
	if err := m.s.Close(); err != nil {
		m.t.Errorf("Close: %v", err)
	}
}

// work writes one task until it is done or the store is closed.
func (m *mix) work() {
	n := journaltest.NewTask("ann")
	if _, _, err := m.s.Create(context.Background(), n); err != nil {
		m.expect(err, nil)
		return
	}
	epoch := m.claim(n.ID)
	for rev := uint64(1); ; {
		m.done(n.ID, rev)
		if rev == 30 {
			return
		}
		var err error
		switch rand.IntN(5) {
		case 0:
			spoiling := journaltest.NewTask("ann")
			spoiling.Head.RequestId = strings.Repeat("x", 40000) // too large a key
			if _, _, err = m.s.Create(context.Background(), spoiling); err == nil {
				m.t.Error("a key of 40000 bytes was stored")
			}
		case 1:
			err = m.s.Commit(context.Background(), follow(n, epoch, rev+2))
			m.expect(err, journal.ErrStale)
		case 2:
			err = m.send(n.ID)
		default:
			if err = m.s.Commit(context.Background(), follow(n, epoch, rev+1)); err == nil {
				rev++
			}
			m.expect(err, nil)
		}
		if errors.Is(err, journal.ErrClosed) {
			return
		}
	}
}

// claim claims all due tasks and returns the epoch of one.
func (m *mix) claim(id string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	all, err := m.s.Claim(context.Background(), journal.ClaimRequest{Slots: 100, Max: 100})
	m.expect(err, nil)
	for _, c := range all.Claims {
		m.owns[c.TaskID] = c.Epoch
	}
	return m.owns[id]
}

func follow(n journal.NewTask, epoch, rev uint64) journal.Transition {
	return journal.Transition{
		TaskID: n.ID, Epoch: epoch, Head: n.Head,
		Checkpoint: &storagev1.Checkpoint{Rev: rev, LastSeq: rev, Status: executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING},
		Record:     &storagev1.Record{Facts: []*storagev1.Fact{{Kind: &storagev1.Fact_TextAdd{TextAdd: &storagev1.TextAdd{Text: "x"}}}}},
	}
}

// expect fails the test if err is not want, unless the store was closed.
func (m *mix) expect(err, want error) {
	if !errors.Is(err, want) && !errors.Is(err, journal.ErrClosed) {
		m.t.Errorf("%v, want %v", err, want)
	}
}

func (m *mix) send(id string) error {
	no, err := m.s.Send(context.Background(), id, &storagev1.Command{Id: "x"})
	m.expect(err, nil)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent[id]++
	m.last = max(m.last, no)
	return nil
}

func (m *mix) done(id string, rev uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revs[id] = rev
	if len(m.revs) > 10 {
		m.busy()
	}
}

func (m *mix) check() {
	if err := m.s.Check(); err != nil {
		m.t.Errorf("the file is inconsistent: %v", err)
	}
	for id, rev := range m.revs {
		task, err := m.s.Load(context.Background(), id)
		if err != nil {
			m.t.Errorf("Load: %v", err)
			continue
		}
		in, err := m.s.Inbox(context.Background(), id)
		if err != nil || task.Checkpoint.GetRev() != rev || len(in) != m.sent[id] {
			m.t.Errorf("rev %d and %d commands, want %d and %d; %v", task.Checkpoint.GetRev(), len(in), rev, m.sent[id], err)
		}
		if rs, err := m.s.Records(context.Background(), id, 0, 1<<30); err != nil || uint64(len(rs)) != rev {
			m.t.Errorf("%d records, want %d; %v", len(rs), rev, err)
		}
		no, err := m.s.Send(context.Background(), id, &storagev1.Command{})
		if err != nil || no <= m.last {
			m.t.Errorf("command %d after a restart, the last was %d; %v", no, m.last, err)
		}
		m.last = no
	}
}
