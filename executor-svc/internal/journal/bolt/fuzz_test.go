package bolt_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// FuzzStoredValue stores any value with a valid checksum in an entry: reading it succeeds, or fails with ErrDamaged, ErrNotFound or
// ErrRequestReused.
func FuzzStoredValue(f *testing.F) {
	path := filepath.Join(f.TempDir(), "journal.db")
	s, err := bolt.Open(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	n := journaltest.NewTask("ann")
	n.Head.RequestId = "r"
	n.Admission = journal.Admission{Now: n.Admission.Now, Requests: 1, Window: 1}
	if _, _, err := s.Create(f.Context(), n); err != nil {
		f.Fatal(err)
	}
	if _, err := s.Send(f.Context(), n.ID, &storagev1.Command{Id: "c"}); err != nil {
		f.Fatal(err)
	}
	topic, settings, facts := uuid.NewString(), journaltest.NewTopic("ann", "@x"), []*storagev1.TopicFact{journaltest.Message("m", "text")}
	settings.RequestId = "r"
	if _, _, err := s.CreateTopic(f.Context(), topic, settings, facts, 0); err != nil {
		f.Fatal(err)
	}
	p := journal.Post{TopicID: topic, Summary: &storagev1.TopicSummary{Agent: "x", ToSeq: 1}}
	if _, _, err := s.Post(f.Context(), p); err != nil {
		f.Fatal(err)
	}
	keys := append(bolt.KeysOf(n.ID, "ann", "r"), bolt.KeysOfTopic(topic, "ann", "r", "m")...)
	for i := range keys {
		f.Add(uint8(i), []byte{})
		f.Add(uint8(i), []byte{1, 1, 9, 0, 1})
		f.Add(uint8(i), []byte{1, 1, 9, 0, 0, 0, 1, 2, 0, 5, 1})
		f.Add(uint8(i), []byte{0, 1, 2, 0, 200, 1, 1})
		f.Add(uint8(i), []byte("0123456789abcdef"))
	}
	f.Fuzz(func(t *testing.T, which uint8, value []byte) {
		key := keys[int(which)%len(keys)]
		var before []byte
		set := func(v []byte) {
			// A change in the log would hide the value.
			if err := s.Apply(); err != nil {
				t.Fatal(err)
			}
			if err := s.DB().Update(func(tx *bbolt.Tx) error {
				b := tx.Bucket([]byte("pawl"))
				before = append([]byte(nil), b.Get(key)...)
				return b.Put(key, v)
			}); err != nil {
				t.Fatal(err)
			}
		}
		s.DB().NoSync = true
		set(bolt.WithChecksum(key, value))
		stored := before
		defer func() { set(stored) }()
		_, load := s.Load(t.Context(), n.ID)
		_, records := s.Records(t.Context(), n.ID, 0, 1<<20)
		_, request := s.FindRequest(t.Context(), "ann", "r")
		_, list := s.List(t.Context(), journal.Query{User: "ann", Limit: 9, AgentID: "a"})
		_, info := s.Info(t.Context())
		_, send := s.Send(t.Context(), n.ID, &storagev1.Command{})
		again := n
		again.Admission.Requests = 100
		_, _, create := s.Create(t.Context(), again)
		_, _, createTopic := s.CreateTopic(t.Context(), topic, settings, facts, 0)
		_, topicRecords := s.TopicRecords(t.Context(), topic, 0, 1<<20)
		_, messages := s.Messages(t.Context(), journal.MessageQuery{TopicID: topic, Limit: 9})
		_, message := s.Message(t.Context(), topic, "m")
		_, summary := s.Summary(t.Context(), topic, "x")
		_, topics := s.ListTopics(t.Context(), journal.TopicQuery{User: "ann", Limit: 9})
		_, outbox := s.Outbox(t.Context(), 0, 9)
		_, _, post := s.Post(t.Context(), p)
		for name, err := range map[string]error{"CreateTopic": createTopic, "TopicRecords": topicRecords, "Messages": messages, "Message": message,
			"Summary": summary, "ListTopics": topics, "Outbox": outbox, "Post": post, "Load": load, "Records": records, "FindRequest": request, "List": list, "Info": info, "Send": send, "Create": create} {
			if err != nil && !errors.Is(err, journal.ErrDamaged) && !errors.Is(err, journal.ErrNotFound) && !errors.Is(err, journal.ErrRequestReused) {
				t.Errorf("%s: %v, want ErrDamaged", name, err)
			}
		}
		_ = s.Check()
		if err := s.ReloadDue(); err != nil && !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("opening: %v, want ErrDamaged", err)
		}
	})
}
