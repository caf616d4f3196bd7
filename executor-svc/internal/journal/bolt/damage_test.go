package bolt_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// written is the file of a journal, its tasks, each with a topic, and the result of readAll for each of them.
type written struct {
	data  []byte
	ids   []string
	reads map[string]string
}

func writeJournal(t *testing.T) *written {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	w := &written{reads: map[string]string{}}
	for i := range 30 {
		n := journaltest.NewTask(fmt.Sprintf("user %d", i%3))
		n.Head.RequestId, n.Head.ConversationId = fmt.Sprint("r", i), "c"
		if i%10 == 0 {
			n.Head.Goal = strings.Repeat("large", 20000)
		}
		if _, _, err := s.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		w.ids = append(w.ids, n.ID)
		w.run(t, s, n, i)
		w.talk(t, s, n, i)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range w.ids {
		w.reads[id], err = readAll(t, s, id)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := bolt.Compact(path); err != nil {
		t.Fatal(err)
	}
	if w.data, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return w
}

// run makes a few transitions; a task with an even number has ended then.
func (w *written) run(t *testing.T, s *bolt.Store, n journal.NewTask, i int) {
	c, err := s.Claim(t.Context(), journal.ClaimRequest{Slots: 100, Max: 100})
	if err != nil {
		t.Fatal(err)
	}
	epoch := uint64(0)
	for _, c := range c.Claims {
		if c.TaskID == n.ID {
			epoch = c.Epoch
		}
	}
	for rev := range uint64(4) {
		tr := follow(n, epoch, rev+2)
		in := strings.Repeat("input ", 20)
		tr.Checkpoint.Name = "a name"
		tr.Checkpoint.Lanes = []*storagev1.Lane{{Step: &storagev1.ActiveStep{Ordinal: 1, InputJson: in, InputSeq: rev + 2}}}
		tr.Record.Facts = []*storagev1.Fact{{Kind: &storagev1.Fact_StepInput{StepInput: in}}}
		if rev == 3 && i%2 == 0 {
			tr.Checkpoint.Status, tr.Checkpoint.Lanes = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS, nil
		}
		if err := s.Commit(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
	}
}

// topicOf returns the id of a task's topic.
func topicOf(task string) string { return uuid.NewSHA1(uuid.Nil, []byte(task)).String() }

// talk makes the topic of a task.
func (w *written) talk(t *testing.T, s *bolt.Store, n journal.NewTask, i int) {
	settings := journaltest.NewTopic(n.Head.GetUserSub(), "@x")
	settings.RequestId, settings.Archived = fmt.Sprint("r", i), i%3 == 1
	if _, _, err := s.CreateTopic(t.Context(), topicOf(n.ID), settings, []*storagev1.TopicFact{journaltest.Message("first", n.Head.GetGoal())}, 0); err != nil {
		t.Fatal(err)
	}
	p := journal.Post{TopicID: topicOf(n.ID), Now: time.Unix(0, int64(i)), Summary: &storagev1.TopicSummary{Agent: "x", ToSeq: 1}}
	p.Facts = []*storagev1.TopicFact{{Kind: &storagev1.TopicFact_RolledBack{RolledBack: &storagev1.RolledBack{}}}, journaltest.Message("second", "text")}
	if _, _, err := s.Post(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// readAll reads a task and its topic in every way.
func readAll(t *testing.T, s *bolt.Store, id string) (string, error) {
	task, err := s.Load(t.Context(), id)
	if err != nil {
		return "", err
	}
	if _, err := s.Inbox(t.Context(), id); err != nil {
		return "", err
	}
	rs, err := s.Records(t.Context(), id, 0, 1<<30)
	if err != nil {
		return "", err
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(task.Head)
	if err == nil {
		b, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, task.Checkpoint)
	}
	for _, r := range rs {
		if err == nil {
			b, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, r.Record)
		}
	}
	if err != nil {
		return "", err
	}
	return readTopic(t, s, topicOf(id), b)
}

// readTopic appends what it reads of a topic.
func readTopic(t *testing.T, s *bolt.Store, id string, b []byte) (string, error) {
	topic, err := s.Topic(t.Context(), id)
	if err != nil {
		return "", err
	}
	page, err := s.Messages(t.Context(), journal.MessageQuery{TopicID: id, RolledBack: true, Limit: 9})
	if err != nil {
		return "", err
	}
	if uint64(len(page.Messages)) != topic.State.GetMessageCount() {
		return "", fmt.Errorf("an entry of the index of messages: %w", journal.ErrNotFound) // the check must find it
	}
	message, err := s.Message(t.Context(), id, "first")
	if err != nil {
		return "", err
	}
	all := []proto.Message{topic.Topic, topic.State, message.TopicMessage}
	for _, m := range page.Messages {
		all = append(all, m.TopicMessage)
	}
	rs, err := s.TopicRecords(t.Context(), id, 0, 1<<30)
	if err != nil {
		return "", err
	}
	for _, r := range rs {
		all = append(all, r.TopicRecord)
	}
	for _, m := range all {
		if err == nil {
			b, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, m)
		}
	}
	return string(b), err
}

// look opens a damaged file and reads all of it: a task reads as it was written or as damaged, and CheckFile reports missing tasks.
// It returns whether any damage was noticed.
func (w *written) look(t *testing.T, data []byte, what string) (noticed bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Error(err)
		return false
	}
	s, err := bolt.Open(path)
	if err != nil {
		if !errors.Is(err, journal.ErrDamaged) && !strings.Contains(err.Error(), "newer pawl") {
			t.Errorf("%s: Open: %v, want ErrDamaged", what, err)
		}
		return true
	}
	missing := 0
	for _, id := range w.ids {
		got, err := readAll(t, s, id)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			missing++
		case err != nil && !errors.Is(err, journal.ErrDamaged):
			t.Errorf("%s: %v, want ErrDamaged", what, err)
		case err == nil && got != w.reads[id]:
			t.Errorf("%s: task %s is another one", what, id)
		}
		noticed = noticed || err != nil
	}
	if _, err := s.List(t.Context(), journal.Query{User: "user 0", Limit: 100, ConversationID: "c"}); err != nil && !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("%s: List: %v, want ErrDamaged", what, err)
	}
	if _, err := s.ListTopics(t.Context(), journal.TopicQuery{User: "user 0", Limit: 100}); err != nil && !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("%s: ListTopics: %v, want ErrDamaged", what, err)
	}
	if _, err := s.Outbox(t.Context(), 0, 100); err != nil && !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("%s: Outbox: %v, want ErrDamaged", what, err)
	}
	if _, _, err := s.Create(t.Context(), journaltest.NewTask("ann")); err != nil && !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("%s: Create: %v, want ErrDamaged", what, err)
	}
	if err := s.Close(); err != nil && !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("%s: Close: %v, want ErrDamaged", what, err)
	}
	problems, err := bolt.CheckFile(path)
	if missing > 0 && err == nil && len(problems) == 0 {
		t.Errorf("%s: %d tasks are not there, and the check finds nothing", what, missing)
	}
	for _, p := range problems {
		if strings.Contains(p.What, "store check") || strings.HasPrefix(p.What, p.Where) {
			t.Errorf("%s: the check repeats itself: %s", what, p)
		}
	}
	return noticed || err != nil || len(problems) > 0
}

// sideBySide calls look n times, from several goroutines because each call waits for the disk.
func sideBySide(n int, look func(i int)) {
	var next atomic.Int32
	each(8, func(int) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			look(i)
		}
	})
}

func TestFlippedBits(t *testing.T) {
	w := writeJournal(t)
	var noticed atomic.Int32
	const flips = 100
	sideBySide(flips, func(i int) {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		data := append([]byte(nil), w.data...)
		at, bit := r.IntN(len(data)), r.IntN(8)
		data[at] ^= 1 << bit
		if w.look(t, data, fmt.Sprintf("bit %d of byte %d (seed %d)", bit, at, i)) {
			noticed.Add(1)
		}
	})
	if noticed := noticed.Load(); noticed < 30 {
		t.Errorf("%d of %d flipped bits were noticed: too few to show anything", noticed, flips)
	}
}

func TestOverwrittenPages(t *testing.T) {
	w := writeJournal(t)
	const page = 4096
	sideBySide(len(w.data)/page, func(n int) {
		for what, b := range map[string]byte{"zeroes": 0, "ones": 0xff} {
			data := append([]byte(nil), w.data...)
			for i := range page {
				data[n*page+i] = b
			}
			w.look(t, data, fmt.Sprintf("page %d is %s", n, what))
		}
	})
}

func TestTruncatedFile(t *testing.T) {
	w := writeJournal(t)
	for size := 0; size < len(w.data); size += 5000 {
		w.look(t, w.data[:size], fmt.Sprintf("%d of %d bytes", size, len(w.data)))
	}
}

// A file is truncated while it is open: reading beyond its end returns an error and does not end the process.
func TestTruncatedWhileOpen(t *testing.T) {
	w := writeJournal(t)
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(path, w.data, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), w.ids[3]); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("Load: %v, want ErrDamaged", err)
	}
	if _, err := s.Send(t.Context(), w.ids[3], &storagev1.Command{}); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("Send: %v, want ErrDamaged", err)
	}
	if _, err := s.Claim(t.Context(), journal.ClaimRequest{Slots: 1, Max: 1}); err != nil {
		t.Errorf("Claim: %v", err)
	}
}
