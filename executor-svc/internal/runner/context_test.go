package runner

import (
	"strings"
	"testing"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// Outputs that do not fit into one request are replaced with a note, here the oldest ones.
func TestHistoryFitsIntoARequest(t *testing.T) {
	big := `{"message":"` + strings.Repeat("x", 12<<20) + `"}`
	var history []*plannerv1.HistoryEntry
	for range 4 {
		history = append(history, &plannerv1.HistoryEntry{OutputJson: big})
	}
	history = append(history, &plannerv1.HistoryEntry{OutputJson: `{"message":"small"}`})
	dropLargeOutputs(history)
	for i, want := range []bool{false, false, true, true, true} {
		kept := !strings.Contains(history[i].GetOutputJson(), "left out")
		if kept != want || history[i].GetOutputOmitted() == want {
			t.Errorf("entry %d: kept is %v and omitted %v, want it kept: %v", i, kept, history[i].GetOutputOmitted(), want)
		}
	}
}
