package memory_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/memory"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// topic is a journal with one topic and with the records of tasks.
type topic struct {
	memory.Journal
	messages []journal.TopicMessage // oldest first; the seq is the index + 1
	summary  *storagev1.TopicSummary
	records  map[string][]journal.Record
}

func (j *topic) Summary(context.Context, string, string) (*storagev1.TopicSummary, error) {
	return j.summary, nil
}

// Messages returns pages of at most 3 messages.
func (j *topic) Messages(_ context.Context, q journal.MessageQuery) (page journal.MessagePage, err error) {
	before := j.messages
	if q.From > 0 {
		before = before[:q.From-1]
	}
	for _, m := range slices.Backward(before) {
		if page.More = len(page.Messages) == min(q.Limit, 3); page.More {
			break
		}
		page.Messages = append(page.Messages, m)
	}
	return page, nil
}

func (j *topic) Records(_ context.Context, id string, after uint64, _ int) ([]journal.Record, error) {
	all, ok := j.records[id]
	if !ok {
		return nil, journal.ErrNotFound
	}
	return all[min(int(after), len(all)):], nil
}

// talk returns a topic with n messages, of which every second one is the agent's.
func talk(n int) *topic {
	j := &topic{}
	for i := 1; i <= n; i++ {
		j.messages = append(j.messages, journal.TopicMessage{Seq: uint64(i), TopicMessage: &storagev1.TopicMessage{
			Id: fmt.Sprintf("task%d/1", i), Sender: []string{"bob", "ann"}[i%2], FromAgent: i%2 == 0, Text: fmt.Sprint(i),
		}})
	}
	return j
}

func load(t *testing.T, j *topic, seq uint64, want flow.Memory) (summary, texts string) {
	t.Helper()
	head := &storagev1.TaskHead{Chat: &storagev1.Chat{TopicId: "topic", Agent: "bob", MessageSeq: seq}}
	m, err := memory.Load(t.Context(), j, "task", head, want)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range m.Messages {
		if m.FromSelf != (m.Sender == "bob") {
			t.Errorf("%v", m)
		}
		all = append(all, m.Text)
	}
	return m.Summary, strings.Join(all, " ")
}

// B7, B13: the newest messages before the task's own, over several pages, with the summary of those before.
func TestMessages(t *testing.T) {
	j := talk(20)
	j.summary = &storagev1.TopicSummary{Text: "so far", ToSeq: 12}
	for _, c := range []struct {
		seq            uint64
		want           flow.Memory
		summary, texts string
	}{
		{20, flow.Memory{Messages: 6, MessageLength: 500}, "so far", "14 15 16 17 18 19"},
		{20, flow.Memory{Messages: 1000, AfterSummary: true}, "so far", "13 14 15 16 17 18 19"},
		{13, flow.Memory{Messages: 1000, AfterSummary: true}, "so far", "14 16 18 20"}, // what the agent posted while the message was queued
		{5, flow.Memory{Messages: 9}, "", "4 6 8 10 12 14 16 18 20"},                   // the summary is of later messages
		{1, flow.Memory{Messages: 2}, "", "18 20"},
		{20, flow.Memory{}, "", ""},
	} {
		if summary, texts := load(t, j, c.seq, c.want); summary != c.summary || texts != c.texts {
			t.Errorf("%v before %d: %q, %q", c.want, c.seq, summary, texts)
		}
	}
	j = talk(8)
	j.messages[5].Id = "task/1" // by the task itself, before it was continued
	if _, texts := load(t, j, 3, flow.Memory{Messages: 6}); texts != "1 2 4 8" {
		t.Errorf("%q", texts)
	}
	j = talk(4)
	j.messages[1].Text = "" // as the answer to a wait
	j.messages[2].Text, j.messages[2].Media = "", []*storagev1.Media{{Type: "image", Name: "a.png"}, {Type: "file"}}
	j.messages[3].Text = strings.Repeat("é", 11)
	j.messages = append(j.messages, journal.TopicMessage{Seq: 5, TopicMessage: &storagev1.TopicMessage{}})
	if _, texts := load(t, j, 5, flow.Memory{Messages: 3, MessageLength: 10}); texts != "1 [image: a… ééééééééé…" {
		t.Errorf("%q", texts)
	}
}

// The texts of messages are bounded, so that a topic of huge messages does not fill the memory.
func TestHugeMessages(t *testing.T) {
	j := talk(100)
	for _, m := range j.messages {
		m.Text = strings.Repeat("x", 256<<10)
	}
	if _, texts := load(t, j, 100, flow.Memory{Messages: 1000, AfterSummary: true}); len(texts) > 4<<20+100 || len(texts) < 3<<20 {
		t.Errorf("%d bytes", len(texts))
	}
}

// B17: the steps of the tasks before, oldest first; a deleted task has none, and huge outputs of older ones are left out.
func TestSteps(t *testing.T) {
	task := func(output string) []journal.Record {
		return []journal.Record{{FirstSeq: 1, Record: &storagev1.Record{Facts: []*storagev1.Fact{
			{Ordinal: 1, ToolId: "x/look", Kind: &storagev1.Fact_StepInput{StepInput: "{}"}},
			{Ordinal: 1, ToolId: "x/look", Kind: &storagev1.Fact_StepOutput{StepOutput: output}},
		}}}}
	}
	j := &topic{records: map[string][]journal.Record{"a": task(strings.Repeat("x", 10<<20)), "b": task("b"), "c": task(strings.Repeat("y", 9<<20))}}
	m, err := memory.Load(t.Context(), j, "task", &storagev1.TaskHead{}, flow.Memory{StepsOf: []string{"a", "deleted", "b", "c"}})
	if err != nil || len(m.Steps) != 3 {
		t.Fatalf("%d steps, %v", len(m.Steps), err)
	}
	if a, b, c := m.Steps[0].OutputJSON, m.Steps[1].OutputJSON, m.Steps[2].OutputJSON; !strings.Contains(a, "10485760 bytes, left out") || b != "b" || len(c) != 9<<20 {
		t.Errorf("%.100s, %s, %d bytes", a, b, len(c))
	}
}
