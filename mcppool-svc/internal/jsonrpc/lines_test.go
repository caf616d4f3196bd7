package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

// lineTest is a case of TestLineReader.
type lineTest struct {
	name, in, out string
	err           error // io.EOF if nothing is wrong
}

// read returns what was passed on (each line, or REFUSED with id and reason for a refused response) and why reading ended.
func read(in io.Reader, limit int) (string, error) {
	var out strings.Builder
	r := NewLineReader(in, limit,
		func(m Message, line []byte) {
			if m.Err != nil {
				fmt.Fprintf(&out, "REFUSED %s %v\n", m.ID, m.Err)
			} else {
				fmt.Fprintf(&out, "%s\n", line)
			}
		})
	err := r.Read()
	return out.String(), err
}

func TestLineReader(t *testing.T) {
	tests := []lineTest{
		{"lines", "{\"a\":1}\n{}\r\n", "{\"a\":1}\n{}\n", io.EOF},
		{"noise is left out", "hello\n{}\n\n[1]\n{broken\n{}\n", "{}\n{}\n", io.EOF},
		{"last line without an end", "{}\n{\"a\":1}", "{}\n{\"a\":1}\n", io.EOF},
		{"too long", "{}\n{\"a\":\"" + strings.Repeat("x", 100) + "\"}\n", "{}\n", ErrEndless},
		{"too long with its id", `{"id":7,"result":"` + strings.Repeat("x", 100) + "\"}\n{}\n", "REFUSED 7 it is too long\n{}\n", io.EOF},
		{"too long with its id at the end", `{"result":"` + strings.Repeat("x", 100) + `","jsonrpc":"2.0","id":7}` + "\n{}\n", "REFUSED 7 it is too long\n{}\n", io.EOF},
		{"too long, another way", `{"result":"` + strings.Repeat("x", 4_000) + `","id": 7, "jsonrpc": "2.0"} ` + "\n{}\n", "REFUSED 7 it is too long\n{}\n", io.EOF},
		{"too long with its id and no end", `{"id":7,"result":"` + strings.Repeat("x", 100), "REFUSED 7 it is too long\n", io.EOF},
		{"too long notification", `{"method":"m","params":"` + strings.Repeat("x", 100) + "\"}\n{}\n", "{}\n", io.EOF},
		{"too long without an id", `{"result":"` + strings.Repeat("x", 10_000) + "\"}\n{}\n", "", ErrEndless},
		{"a key twice", `{"id":7,"result":{"a":1,"a":2}}` + "\n{}\n", "REFUSED 7 at byte 24 in \"/result\": the key \"a\" comes twice\n{}\n", io.EOF},
		{"a key in another case", `{"id":7,"result":1,"Result":2}` + "\n{}\n", "REFUSED 7 a key of the message is in the wrong letter case\n{}\n", io.EOF},
		{"broken answer", `{"id":7,"result":}` + "\n{}\n", "REFUSED 7 at byte 17 in \"/result\": invalid character '}' at start of value\n{}\n", io.EOF},
		{"broken notification", `{"method":"m","method":"n"}` + "\n{}\n", "{}\n", io.EOF},
		{"endless", strings.Repeat("x", 1000), "", ErrEndless},
		{"much noise", "{}\n" + strings.Repeat("y\n", maxNoise), "{}\n", ErrNoise},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := read(iotest.OneByteReader(strings.NewReader(tt.in)), 64)
			if out != tt.out {
				t.Errorf("read %q; want %q", out, tt.out)
			}
			if !errors.Is(err, tt.err) {
				t.Errorf("Read ended with %v, want %v", err, tt.err)
			}
		})
	}
}

// fill reads as n times the byte x.
type fill struct{ n int }

var filler = bytes.Repeat([]byte("x"), 4096)

func (f *fill) Read(p []byte) (int, error) {
	if f.n == 0 {
		return 0, io.EOF
	}
	n := copy(p, filler[:min(len(filler), f.n)])
	f.n -= n
	return n, nil
}

const maxMessage = 32 << 20

// A result of 1 GiB costs no more memory than the longest message that is let through.
func TestGigabyteTakesNoMemory(t *testing.T) {
	line := io.MultiReader(strings.NewReader(`{"result":"`), &fill{1 << 30}, strings.NewReader(`","jsonrpc":"2.0","id":7}`+"\n{}\n"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out, _ := read(line, maxMessage)
	runtime.ReadMemStats(&after)
	if out != "REFUSED 7 it is too long\n{}\n" {
		t.Errorf("read %q", out)
	}
	// Allocations in all: a growing buffer leaves smaller ones behind.
	if used := after.TotalAlloc - before.TotalAlloc; used > 8*maxMessage {
		t.Errorf("%d MiB were allocated", used>>20)
	}
}

// A long line is collected in parts and joined, and its reader may keep it.
func TestLongLinesAreCopiedTwice(t *testing.T) {
	const size = 16 << 20
	line := io.MultiReader(strings.NewReader(`{"id":7,"result":"`), &fill{size}, strings.NewReader("\"}\n{\"id\":8}\n"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var kept []Message
	r := NewLineReader(line, maxMessage, func(m Message, _ []byte) { kept = append(kept, m) })
	_ = r.Read()
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > size*9/4 {
		t.Errorf("%d MiB were allocated for a line of %d", used>>20, size>>20)
	}
	if len(kept) != 2 || !kept[0].Own || kept[1].Own || len(kept[0].Result) != size+2 || bytes.Count(kept[0].Result, []byte("x")) != size {
		t.Error("the line has changed, or it may not be kept")
	}
}

// Whatever a child writes, what passes is whole lines of JSON objects within the limit.
func FuzzLineReader(f *testing.F) {
	f.Add([]byte("{\"a\":1}\nx\n{}\n"), 16)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		limit = 1 + (limit&0xff+256)%256
		r := NewLineReader(bytes.NewReader(in), limit, func(m Message, line []byte) {
			if m.Err == nil && (len(line) > limit || len(line) == 0 || line[0] != '{') {
				t.Errorf("passed %q", line)
			}
			if _, ok := ID(m.ID); m.Err != nil && !ok {
				t.Errorf("refused %q", m.ID)
			}
		})
		_ = r.Read()
	})
}

func TestLineWriterKeepsOrderAndNeverBlocks(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lw := NewLineWriter(w, time.Minute, func(err error) { t.Errorf("failed: %v", err) })
	line := strings.Repeat("x", 1000) + "\n"
	for range 1000 { // far more than a pipe holds, with no reader
		if err := lw.Write(1, []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 1000*len(line))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != strings.Repeat(line, 1000) {
		t.Errorf("read something else (%v)", err)
	}
	if err := lw.Close(); err != nil {
		t.Error(err)
	}
	if err := lw.Write(1, []byte(line)); !errors.Is(err, ErrPipeClosed) {
		t.Errorf("write after Close: %v", err)
	}
}

func TestLineWriterGivesUpOnAStalledReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	failed := make(chan error, 1)
	lw := NewLineWriter(w, 50*time.Millisecond, func(err error) { failed <- err })
	if err := lw.Write(1, bytes.Repeat([]byte{'x'}, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error = %v", err)
	}
	if err := lw.Close(); err != nil {
		t.Error(err)
	}
}

func TestLineWriterBoundsWhatWaits(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lw := NewLineWriter(w, time.Minute, func(error) {})
	if err := lw.Write(1, bytes.Repeat([]byte{'x'}, MaxQueued+1<<20)); err != nil {
		t.Errorf("one large message: %v", err)
	}
	if err := lw.Write(2, []byte("y\n")); !errors.Is(err, ErrNotRead) {
		t.Errorf("more behind it: %v", err)
	}
	start := time.Now()
	if err := lw.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 10*flushLimit {
		t.Errorf("Close took %v", took)
	}
}

// A line that the broken pipe did not take never ran; one that was read may have.
func TestLineWriterKnowsWhatWasNotDelivered(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	lw := NewLineWriter(w, time.Minute, func(err error) { failed <- err })
	first, second := []byte("{\"id\":1}\n"), []byte("{\"id\":11}\n")
	if err := lw.Write(1, first); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, len(first))); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := lw.Write(11, second); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, syscall.EPIPE) {
		t.Errorf("error = %v", err)
	}
	if lw.Undelivered(1) {
		t.Error("a line that was read counts as not delivered")
	}
	if !lw.Undelivered(11) {
		t.Error("a line without a reader counts as delivered")
	}
	if err := lw.Close(); err != nil {
		t.Error(err)
	}
}

// Messages stay whole and in order, whether they are written at once or queued, and from any goroutine.
func TestLineWriterDirectAndQueuedWritesMix(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lw := NewLineWriter(w, time.Minute, func(err error) { t.Errorf("failed: %v", err) })
	const writers, each = 8, 300
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			for i := range each {
				// From a few bytes to more than is written at once.
				line := fmt.Sprintf("%d %d %s\n", n, i, strings.Repeat("x", (i*37)%(directLimit+500)))
				if err := lw.Write(int64(i), []byte(line)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	next := make([]int, writers)
	lines := bufio.NewScanner(r)
	for range writers * each {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		var n, i int
		if _, err := fmt.Sscanf(lines.Text(), "%d %d", &n, &i); err != nil || n >= writers || next[n] != i || strings.Count(lines.Text(), "x") != (i*37)%(directLimit+500) {
			t.Fatalf("line %.40q, %v; writer %d is at %d", lines.Text(), err, n, next[min(n, writers-1)])
		}
		next[n]++
	}
	wg.Wait()
	if err := lw.Close(); err != nil {
		t.Error(err)
	}
}
