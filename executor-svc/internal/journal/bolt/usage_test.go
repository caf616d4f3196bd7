package bolt_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// What is counted change by change is what the journal holds, also if changes fail.
func TestUsageIsWhatIsStored(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "journal.db"))
	users := []string{"ann", "bob"}
	if err := s.Admit(t.Context(), "ann", journal.Admission{Bytes: 1}); err != nil { // counts from here on
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		return strings.Repeat(string(rune('a'+random.IntN(4))), []int{10, 5000, 400 << 10}[random.IntN(3)])
	}
	var ids, topics []string
	for _, user := range users {
		topics = append(topics, uuid.NewString())
		if _, _, err := s.CreateTopic(t.Context(), topics[len(topics)-1], journaltest.NewTopic(user, "cat"), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		if i%7 == 3 {
			s.FailCommits(func(func() error) error { return errDisk })
		}
		n := journaltest.NewTask(users[random.IntN(2)])
		n.Head.Goal = text()
		_, created, err := s.Create(t.Context(), n)
		if created {
			ids = append(ids, n.ID)
			found, err := s.Claim(t.Context(), journal.ClaimRequest{Now: n.Admission.Now, Slots: 100, Max: 100})
			if err != nil || len(found.Claims) != 1 {
				t.Fatal(found, err)
			}
			c := &storagev1.Checkpoint{Rev: 2, Status: executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS, LastSeq: 3, Error: &storagev1.ErrorNote{DataJson: text()}}
			facts := []*storagev1.Fact{{Kind: &storagev1.Fact_StepOutput{StepOutput: text()}}, {Kind: &storagev1.Fact_StepOutput{StepOutput: text()}}}
			post := &journal.Post{
				TopicID: topics[random.IntN(len(topics))], Now: time.Unix(0, int64(i)), Facts: []*storagev1.TopicFact{journaltest.Message(fmt.Sprint(i), text())},
				Summary: &storagev1.TopicSummary{Agent: "x", Text: text(), ToSeq: uint64(random.IntN(3))},
			}
			err = s.Commit(t.Context(), journal.Transition{
				TaskID: n.ID, Epoch: found.Claims[0].Epoch, Head: n.Head, Checkpoint: c, Record: &storagev1.Record{Time: 1, Facts: facts}, Post: post,
			})
			if err != nil {
				t.Fatal(err)
			}
		} else if i%7 != 3 {
			t.Fatal(err)
		}
		s.FailCommits(nil)
		if len(ids) > 5 && random.IntN(2) == 0 {
			at := random.IntN(len(ids))
			if err := s.Delete(t.Context(), ids[at]); err != nil {
				t.Fatal(err)
			}
			ids = append(ids[:at], ids[at+1:]...)
		}
		changeTopic(t, s, topics[random.IntN(len(topics))], i, text())
		counted, stored := s.Usage(t)
		if d := cmp.Diff(stored, counted); d != "" {
			t.Fatalf("after %d changes (-stored +counted): %s", i, d)
		}
	}
}

// changeTopic changes a topic, or deletes it and creates it again.
func changeTopic(t *testing.T, s *bolt.Store, id string, i int, text string) {
	topic, err := s.Topic(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	topic.Rev++
	topic.Description, topic.Archived = text, i%5 == 0
	if err := s.UpdateTopic(t.Context(), id, topic.Topic, time.Unix(0, int64(i)), []*storagev1.TopicFact{journaltest.Message(fmt.Sprint("u", i), text)}); err != nil {
		t.Fatal(err)
	}
	if topic.GetArchived() {
		if n, err := s.SweepTopics(t.Context(), time.Unix(1, 0), 1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if _, _, err := s.CreateTopic(t.Context(), id, journaltest.NewTopic(topic.GetUserSub()), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
}
