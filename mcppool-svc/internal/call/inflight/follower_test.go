package inflight

import (
	"strconv"
	"strings"
	"testing"

	"pawl.dev/mcppool-svc/internal/mcp"
)

func progress(n int) mcp.Notification {
	return mcp.Notification{Progress: &mcp.Progress{Done: float64(n)}}
}

func logged(n int) mcp.Notification {
	return mcp.Notification{Log: &mcp.Log{Data: strconv.Itoa(n)}}
}

// Of the progress only the newest is pending, behind the log that came before it; of logs, the newest that fit.
func TestFollowerIsBounded(t *testing.T) {
	m := newFollower()
	m.put(progress(-1))
	m.put(logged(-1))
	for i := range 1000 {
		m.put(progress(i))
	}
	got := m.Take()
	if len(got) != 2 || got[0].Log == nil || got[1].Progress == nil || got[1].Progress.Done != 999 {
		t.Errorf("%d messages: %v", len(got), got)
	}
	if rest := m.Take(); len(rest) != 0 {
		t.Errorf("left: %v", rest)
	}
	for i := range maxPending + 10 {
		m.put(logged(i))
	}
	if got := m.Take(); len(got) != maxPending || got[0].Log.Data != "10" {
		t.Errorf("logs alone: %d, first %v", len(got), got[0])
	}
	m.put(mcp.Notification{Task: &mcp.Task{ID: "t"}})
	for range 10 {
		m.put(mcp.Notification{Log: &mcp.Log{Data: strings.Repeat("x", maxPendingBytes/2)}})
	}
	if got := m.Take(); len(got) != 3 || got[0].Task == nil {
		t.Errorf("long logs: %d", len(got))
	}
	m.put(mcp.Notification{Log: &mcp.Log{Data: strings.Repeat("x", 2*maxPendingBytes)}})
	if got := m.Take(); len(got) != 1 {
		t.Errorf("a longer log than the bound: %d", len(got))
	}
}

func TestEveryFollowerHears(t *testing.T) {
	c := begin(t, New(Config{}, pool), "1")
	first, err := c.Follow()
	if err != nil {
		t.Fatal(err)
	}
	c.Notify(progress(1))
	second, err := c.Follow()
	if err != nil {
		t.Fatal(err)
	}
	c.Notify(progress(2))
	c.Leave(second)
	c.Notify(progress(3))
	if a, b := first.Take(), second.Take(); len(a) != 1 || a[0].Progress.Done != 3 || len(b) != 1 || b[0].Progress.Done != 2 {
		t.Errorf("the first heard %v, the second %v", a, b)
	}
}
