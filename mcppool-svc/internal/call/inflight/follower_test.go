package inflight

import (
	"strconv"
	"testing"

	"pawl.dev/mcppool-svc/internal/mcp"
)

func progress(n int) mcp.Notification {
	return mcp.Notification{Progress: &mcp.Progress{Done: float64(n)}}
}

func logged(n int) mcp.Notification {
	return mcp.Notification{Log: &mcp.Log{Data: strconv.Itoa(n)}}
}

func TestFollowerDropsOldestProgressFirst(t *testing.T) {
	m := newFollower()
	m.put(logged(-1))
	for i := range 1000 {
		m.put(progress(i))
	}
	got := m.Take()
	if len(got) != maxPending || got[0].Log == nil || got[1].Progress.Done != 1000-maxPending+1 {
		t.Errorf("%d messages, first %v and %v", len(got), got[0], got[1])
	}
	if got[len(got)-1].Progress.Done != 999 {
		t.Errorf("the newest is %v", got[len(got)-1])
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
	if a, b := len(first.Take()), len(second.Take()); a != 3 || b != 1 {
		t.Errorf("the first heard %d, the second %d", a, b)
	}
}
