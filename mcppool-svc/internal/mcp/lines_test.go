package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// lineTest is one of TestLineReader.
type lineTest struct {
	name, in, out string
	kind          Kind // of the error, where there is one
	fails         bool
}

// verdicts is out with the verdicts written out.
func (tt lineTest) verdicts(j *judge) string {
	return regexp.MustCompile(`(?m)^VERDICT (\d+) (\d)$`).ReplaceAllString(tt.out,
		`{"jsonrpc":"2.0","id":$1,"error":{"code":-32099,"message":"`+j.word+`$2"}}`)
}

func TestLineReader(t *testing.T) {
	tests := []lineTest{
		{"lines", "{\"a\":1}\n{}\r\n", "{\"a\":1}\n{}\r\n", 0, false},
		{"noise is left out", "hello\n{}\n\n[1]\n{broken\n{}\n", "{}\n{}\n", 0, false},
		{"last line without an end", "{}\n{\"a\":1}", "{}\n{\"a\":1}\n", 0, false},
		{"too long", "{}\n{\"a\":\"" + strings.Repeat("x", 100) + "\"}\n", "{}\n", TooLarge, true},
		{"too long with its id", `{"id":7,"result":"` + strings.Repeat("x", 100) + "\"}\n{}\n", "VERDICT 7 0\n{}\n", 0, false},
		{"too long with its id at the end", `{"result":"` + strings.Repeat("x", 100) + `","jsonrpc":"2.0","id":7}` + "\n{}\n", "VERDICT 7 0\n{}\n", 0, false},
		{"too long, another way", `{"result":"` + strings.Repeat("x", 10_000) + `","id": 7, "jsonrpc": "2.0"} ` + "\n{}\n", "VERDICT 7 0\n{}\n", 0, false},
		{"too long with its id and no end", `{"id":7,"result":"` + strings.Repeat("x", 100), "VERDICT 7 0\n", 0, false},
		{"too long notification", `{"method":"m","params":"` + strings.Repeat("x", 100) + "\"}\n{}\n", "{}\n", 0, false},
		{"too long without an id", `{"result":"` + strings.Repeat("x", 10_000) + "\"}\n{}\n", "", TooLarge, true},
		{"a key twice", `{"id":7,"result":{"a":1,"a":2}}` + "\n{}\n", "VERDICT 7 1\n{}\n", 0, false},
		{"a key in another case", `{"id":7,"result":1,"Result":2}` + "\n{}\n", "VERDICT 7 2\n{}\n", 0, false},
		{"broken answer", `{"id":7,"result":}` + "\n{}\n", "VERDICT 7 4\n{}\n", 0, false},
		{"broken notification", `{"method":"m","method":"n"}` + "\n{}\n", "{}\n", 0, false},
		{"endless", strings.Repeat("x", 1000), "", TooLarge, true},
		{"much noise", "{}\n" + strings.Repeat("y\n", maxNoise), "{}\n", Protocol, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newLineReader(iotest.OneByteReader(strings.NewReader(tt.in)), 64)
			out, err := io.ReadAll(r)
			if err != nil || string(out) != tt.verdicts(r.judge) {
				t.Errorf("read %q, %v; want %q", out, err, tt.out)
			}
			<-r.eof
			var e *Error
			if errors.As(r.Err(), &e) != tt.fails || tt.fails && e.Kind != tt.kind {
				t.Errorf("Err = %v", r.Err())
			}
		})
	}
}

// fill is n bytes of one kind.
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

// A result of 1 GiB costs no more memory than the longest message that is let through.
func TestGigabyteTakesNoMemory(t *testing.T) {
	line := io.MultiReader(strings.NewReader(`{"result":"`), &fill{1 << 30}, strings.NewReader(`","jsonrpc":"2.0","id":7}`+"\n{}\n"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := newLineReader(line, DefaultMaxMessage)
	out, err := io.ReadAll(r)
	runtime.ReadMemStats(&after)
	if err != nil || !strings.HasSuffix(string(out), "}}\n{}\n") || !strings.Contains(string(out), `"id":7,`) {
		t.Errorf("read %q, %v", out, err)
	}
	// A buffer that grows by and by leaves smaller ones behind.
	if used := after.TotalAlloc - before.TotalAlloc; used > 8*DefaultMaxMessage {
		t.Errorf("%d MiB were allocated", used>>20)
	}
}

// Whatever a child writes, what passes is whole lines of JSON objects within the limit.
func FuzzLineReader(f *testing.F) {
	f.Add([]byte("{\"a\":1}\nx\n{}\n"), 16)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		limit = 1 + (limit&0xff+256)%256
		out, err := io.ReadAll(newLineReader(bytes.NewReader(in), limit))
		if err != nil {
			t.Fatal(err)
		}
		s := bufio.NewScanner(bytes.NewReader(out))
		for s.Scan() {
			if line := bytes.TrimSpace(s.Bytes()); len(line) > limit && !bytes.Contains(line, []byte("-32099")) || len(line) == 0 || line[0] != '{' {
				t.Errorf("passed %q", line)
			}
		}
	})
}

func TestLineWriterKeepsOrderAndNeverBlocks(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lw := newLineWriter(w, time.Minute, func(err error) { t.Errorf("failed: %v", err) })
	line := strings.Repeat("x", 1000) + "\n"
	for range 1000 { // far more than a pipe holds, with nobody reading
		if _, err := io.WriteString(lw, line); err != nil {
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
	if _, err := io.WriteString(lw, line); !errors.Is(err, errNotQueued) {
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
	lw := newLineWriter(w, 50*time.Millisecond, func(err error) { failed <- err })
	if _, err := lw.Write(bytes.Repeat([]byte{'x'}, 1<<20)); err != nil {
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
	lw := newLineWriter(w, time.Minute, func(error) {})
	if _, err := lw.Write(bytes.Repeat([]byte{'x'}, maxQueued+1<<20)); err != nil {
		t.Errorf("one large message: %v", err)
	}
	if _, err := lw.Write([]byte("y\n")); !errors.Is(err, errNotQueued) {
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

// What a broken pipe did not take never ran; what it took may have.
func TestLineWriterKnowsWhatWasNotDelivered(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	lw := newLineWriter(w, time.Minute, func(err error) { failed <- err })
	first, second := string(beginning(mcp.NewRequestId(int64(1))))+"}\n", string(beginning(mcp.NewRequestId(int64(11))))+"}\n"
	if _, err := io.WriteString(lw, first); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, len(first))); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if _, err := io.WriteString(lw, second); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, syscall.EPIPE) {
		t.Errorf("error = %v", err)
	}
	if lw.undelivered([]byte(first[:len(first)-2])) {
		t.Error("what was read counts as not delivered")
	}
	if !lw.undelivered([]byte(second[:len(second)-2])) {
		t.Error("what nobody could read counts as delivered")
	}
	if err := lw.Close(); err != nil {
		t.Error(err)
	}
}

// Messages that go out at once and such that wait keep their order and their wholeness, whoever writes them.
func TestLineWriterDirectAndQueuedWritesMix(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lw := newLineWriter(w, time.Minute, func(err error) { t.Errorf("failed: %v", err) })
	const writers, each = 8, 300
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			for i := range each {
				// From a few bytes to more than is written at once.
				line := fmt.Sprintf("%d %d %s\n", n, i, strings.Repeat("x", (i*37)%(directLimit+500)))
				if got, err := io.WriteString(lw, line); err != nil || got != len(line) {
					t.Errorf("wrote %d of %d: %v", got, len(line), err)
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
