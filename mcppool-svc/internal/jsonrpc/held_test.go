package jsonrpc

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pawl.dev/services/serve"
)

// reading reads lines from src within the budget, and returns what the received messages hold.
func reading(t *testing.T, src io.Reader, budget *serve.Budget) <-chan *Held {
	received := make(chan *Held, 10)
	r := NewLineReader(src, 4<<20, func(m Message, _ []byte) { received <- m.Held })
	r.SetAdmit(func(most int) *Held { return Admit(t.Context(), budget, "", most) })
	go func() { _ = r.Read() }()
	return received
}

// twoMiB returns a line of a little more than 2 MiB.
func twoMiB() string { return `{"id":1,"result":"` + strings.Repeat("x", 2<<20) + `"}` + "\n" }

// arrived returns what a message holds that has been received by now, or nil.
func arrived(received <-chan *Held) *Held {
	synctest.Wait()
	select {
	case h := <-received:
		return h
	default:
		return nil
	}
}

// Issue 13, results: a large line waits until the budget has room for a message of the greatest size, and then counts for its own size until it is
// released, or for holdLimit. Small lines wait for nothing.
func TestLargeLinesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := serve.NewBudget("test", 7<<20)
		first := arrived(reading(t, strings.NewReader(twoMiB()), budget))
		second := arrived(reading(t, strings.NewReader(twoMiB()), budget))
		if first == nil || second == nil {
			t.Fatal("a line that was read counts for more than its size")
		}
		third := reading(t, strings.NewReader("{\"id\":2,\"result\":1}\n"+twoMiB()), budget)
		synctest.Wait()
		if len(third) != 1 || <-third != nil {
			t.Fatal("a small line waited, or a large one did not")
		}
		first.Release()
		if arrived(third) == nil {
			t.Fatal("the large line still waits although there is room")
		}
		fourth := reading(t, strings.NewReader(twoMiB()), budget)
		time.Sleep(holdLimit - time.Millisecond)
		if arrived(fourth) != nil {
			t.Fatal("a message gave its part back early")
		}
		time.Sleep(time.Millisecond)
		if arrived(fourth) == nil {
			t.Fatal("a message that is not released holds its part for longer than holdLimit")
		}
		second.Release() // too late, and without effect
	})
}

// A server that stops in the middle of a line holds its part of the budget for stallLimit. Then what was read of the line is dropped, and if the
// server goes on after all, its stream ends. A slow server may take stallLimit for each part.
func TestStalledLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := serve.NewBudget("test", 4<<20)
		in, out := io.Pipe()
		defer out.Close()
		received := make(chan *Held, 1)
		r := NewLineReader(in, 4<<20, func(m Message, _ []byte) { received <- m.Held })
		r.SetAdmit(func(most int) *Held { return Admit(t.Context(), budget, "", most) })
		ended := make(chan error, 1)
		go func() { ended <- r.Read() }()
		line := twoMiB()
		out.Write([]byte(line[:largeMessage]))
		for at := largeMessage; at < len(line)-1; at += partSize { // for longer than stallLimit in all
			time.Sleep(stallLimit - time.Millisecond)
			out.Write([]byte(line[at:min(at+partSize, len(line)-1)]))
		}
		other := reading(t, strings.NewReader(twoMiB()), budget)
		if arrived(other) != nil {
			t.Fatal("the line that is being read does not count")
		}
		out.Write([]byte(line[len(line)-1:]))
		if arrived(received) == nil {
			t.Fatal("the slow line did not arrive")
		}
		time.Sleep(holdLimit - time.Millisecond)
		if arrived(other) != nil {
			t.Fatal("the result of a slow line does not count for holdLimit")
		}
		time.Sleep(time.Millisecond)
		if arrived(other) == nil {
			t.Fatal("the other line still waits")
		}
		out.Write([]byte(line[:len(line)-1]))
		last := reading(t, strings.NewReader(twoMiB()), budget)
		time.Sleep(holdLimit + stallLimit)
		if arrived(last) == nil {
			t.Fatal("a line that does not end keeps others from being read")
		}
		if r.lines.mu.Lock(); r.lines.parts != nil || r.lines.buf != nil {
			t.Error("the line no longer counts, and what was read of it is kept")
		}
		r.lines.mu.Unlock()
		go out.Write([]byte(line[len(line)-1:]))
		if err := <-ended; !errors.Is(err, ErrStalled) {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

// The same of events, whose data may have many lines, and of bodies.
func TestStalledEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := serve.NewBudget("test", 4<<20)
		admit := func(most int) *Held { return Admit(t.Context(), budget, "", most) }
		for _, read := range map[string]func(io.Reader) error{
			"events": func(src io.Reader) error {
				r := NewEventReader(src, 4<<20, 2)
				r.SetAdmit(admit)
				_, err := r.Next()
				return err
			},
			"body": func(src io.Reader) error {
				_, held, err := ReadBody(src, 4<<20, admit)
				held.Release()
				return err
			},
		} {
			in, out := io.Pipe()
			ended := make(chan error, 1)
			go func() { ended <- read(in) }()
			out.Write([]byte(strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 2)))
			time.Sleep(stallLimit)
			if synctest.Wait(); len(ended) > 0 {
				t.Fatalf("it ended with %v", <-ended)
			}
			all, err := budget.Acquire(t.Context(), "", 4<<20)
			if err != nil {
				t.Fatal(err)
			}
			all.Release()
			go out.Write([]byte("\n\n"))
			if err := <-ended; !errors.Is(err, ErrStalled) {
				t.Errorf("it ended with %v", err)
			}
			out.Close()
		}
	})
}
