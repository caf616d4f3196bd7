package jsonrpc

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// An event is bounded, and a stream of them is not.
func TestEventReader(t *testing.T) {
	const in = ": hello\r\n\r\nid: 7\nevent: message\ndata: {\"a\":\ndata: 1}\n\nid: bad\x00\nretry: 5\ndata\n\nid: 8\n\ndata: xxxxxxxxxxxxxxxxxxxxx\n\nid: 9\ndata:last"
	r := NewEventReader(iotest.OneByteReader(strings.NewReader(in)), 20, 3)
	for _, want := range []struct {
		name, data, lastID string
		long               bool
	}{{"message", "{\"a\":\n1}", "7", false}, {"", "", "7", false}, {"", strings.Repeat("x", 20), "8", true}, {"", "last", "8", false}} {
		e, err := r.Next()
		if err != nil || e.Name != want.name || string(e.Data) != want.data || (e.Tail != nil) != want.long || r.LastID != want.lastID {
			t.Errorf("event %+v, %v, last id %q; want %+v", e, err, r.LastID, want)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) || r.Retry != minRetry {
		t.Errorf("%v, retry %v", err, r.Retry)
	}
	many := NewEventReader(strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", 60)+"\r\n\r\n", 100)+strings.Repeat("data: x\n", 100)+"\n"+strings.Repeat("x", 1001)), 100, 10)
	for i := range 101 {
		if e, err := many.Next(); err != nil || (e.Tail != nil) != (i == 100) {
			t.Fatalf("event %d: tail %q, %v", i, e.Tail, err)
		}
	}
	if _, err := many.Next(); !errors.Is(err, ErrEndless) {
		t.Errorf("an endless line: %v", err)
	}
}
