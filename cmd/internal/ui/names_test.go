package ui_test

import (
	"testing"

	"pawl.dev/cmd/internal/ui"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
)

func TestFind(t *testing.T) {
	topics := []*conversationv1.Topic{
		{Id: "01a224a3-1111-7000-8000-0000b42288e9", DisplayName: "plans"},
		{Id: "01a224a3-2222-7000-8000-000016ca9f00", DisplayName: "Twice"},
		{Id: "01a224b0-3333-7000-8000-0000116ca9ff", DisplayName: "twice"},
	}
	for ref, want := range map[string]string{
		"b42288e9": "plans", "88E9": "plans", "01a224a3-1": "plans", "PLANS": "plans", "01A224b0": "twice",
		"8e9":      `you have no topic "8e9"; next: pawl topics --server x lists your topics`,
		"01a224a3": `"01a224a3" names 2 topics: b42288e9, 16ca9f00; next: give the end of one's id; pawl topics --server x lists your topics`,
		"twice":    `"twice" names 2 topics: 16ca9f00, 116ca9ff; next: give the end of one's id; pawl topics --server x lists your topics`,
	} {
		topic, err := ui.Find(topics, ref, "topic", " --server x")
		got := topic.GetDisplayName()
		if err != nil {
			got = ui.AsError(err).Message + "; next: " + ui.AsError(err).Next
		}
		if got != want {
			t.Errorf("%q: %s, want %s", ref, got, want)
		}
	}
}
