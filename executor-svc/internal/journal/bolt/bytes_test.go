package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"pawl.dev/executor-svc/internal/journal/bolt"
)

// payloadPerStep is how many bytes a step's input, output and description take in finishTasks.
const payloadPerStep = 60 + 16 + 60 + 10 + 38

// A task of 10 steps takes at most 8 KiB of disk, after tasks ran concurrently.
func TestBytesPerTask(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	const tasks, steps = 150, 10
	for range 3 {
		finishTasks(t, s, tasks/3, steps)
	}
	if err := s.Apply(); err != nil {
		t.Fatal(err)
	}
	i, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kv := int64(0)
	for _, n := range i.Bytes {
		kv += n
	}
	disk := (i.GetSizeBytes() - i.GetFreeBytes()) / tasks
	t.Logf("per task of 10 steps: %d bytes of keys and values (%d of them payload), %d bytes of pages in use; by kind over %d tasks: %v",
		kv/tasks, steps*payloadPerStep, disk, tasks, i.Bytes)
	if disk > 8<<10 {
		t.Errorf("%d bytes of disk per task, want at most 8 KiB", disk)
	}
	if i.Tasks["SUCCESS"] != tasks || i.Records != tasks*(2*steps+2) {
		t.Errorf("%v tasks and %d records", i.Tasks, i.Records)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, after, err := bolt.Compact(path)
	t.Logf("the file: %d bytes, %d after compaction, %d per task", before, after, after/tasks)
	if err != nil || after >= before {
		t.Errorf("Compact: %d to %d, %v", before, after, err)
	}
}

// The bytes that a step writes do not depend on how many steps went before: at most 500 per commit beyond the payload. A
// large input is stored once, beside the checkpoint and the record.
func TestBytesPerStep(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "journal.db"))
	w, err := newWorker(t.Context(), s, "ann")
	if err != nil {
		t.Fatal(err)
	}
	if err := own(t.Context(), s, []*worker{w}); err != nil {
		t.Fatal(err)
	}
	written := map[int][2]int{}
	for step := 1; step <= 500; step++ {
		payload := 60
		if step > 495 {
			payload = 20000
		}
		if err := w.intent(t.Context(), payload); err != nil {
			t.Fatal(err)
		}
		intent := s.BytesOfTask(t, w.n.ID, w.cp.GetLastSeq()-1)
		if err := w.outcome(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		outcome := s.BytesOfTask(t, w.n.ID, w.cp.GetLastSeq())
		if step == 500 {
			payload = 0 // it is stored beside them
		}
		written[step] = [2]int{intent - payload - 38 - 16, outcome - 60 - 10}
	}
	t.Logf("beyond payloads, intent and outcome: step 5 %v, step 495 %v, step 500 with a large input %v", written[5], written[495], written[500])
	for i := range 2 {
		// A number may take a byte or two more.
		if d := written[495][i] - written[5][i]; d > 16 || d < -16 {
			t.Errorf("step 495 wrote %d bytes, step 5 wrote %d", written[495][i], written[5][i])
		}
		if d := written[500][i] - written[5][i]; d > 64 {
			t.Errorf("a step with a large input wrote %d bytes beside it, step 5 wrote %d", written[500][i], written[5][i])
		}
		if written[495][i] > 500 {
			t.Errorf("%d bytes beyond the payloads, want at most 500", written[495][i])
		}
	}
}

// Issue 16: the pages in use and the bytes written for steps with outputs of a size are at most these multiples of the size. What is written for
// small outputs depends on how long the run takes.
func TestBytesPerOutput(t *testing.T) {
	for _, c := range []struct {
		size, tasks, steps int
		inUse, written     float64
	}{
		{1000, 100, 10, 2.05, math.Inf(1)},
		{300_000, 5, 10, 1.1, 2},
		{1_000_000, 5, 10, 1.1, 1.5},
	} {
		t.Run(fmt.Sprint(c.size), func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "journal.db"))
			workers := make([]*worker, c.tasks)
			for i := range workers {
				var err error
				if workers[i], err = newWorker(t.Context(), s, "ann"); err != nil {
					t.Fatal(err)
				}
			}
			if err := own(t.Context(), s, workers); err != nil {
				t.Fatal(err)
			}
			before := bytesWritten(t)
			each(len(workers), func(i int) {
				for range c.steps {
					if err := errors.Join(workers[i].intent(context.Background(), 60), workers[i].outcome(context.Background(), c.size)); err != nil {
						t.Error(err)
					}
				}
			})
			if err := s.Apply(); err != nil {
				t.Fatal(err)
			}
			all := float64(c.size * c.tasks * c.steps)
			written := float64(bytesWritten(t)-before) / all
			i, err := s.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			inUse := float64(i.GetSizeBytes()-i.GetFreeBytes()) / all
			t.Logf("%.2f × in use, %.2f × written", inUse, written)
			if inUse > c.inUse || written > c.written {
				t.Errorf("%.2f × in use, want %.2f; %.2f × written, want %.2f", inUse, c.inUse, written, c.written)
			}
		})
	}
}

// bytesWritten returns how many bytes this process has written to files.
func bytesWritten(t *testing.T) (n int64) {
	raw, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip("only Linux counts what a process writes:", err)
	}
	if _, err := fmt.Sscanf(string(raw), "rchar: %d\nwchar: %d", new(int64), &n); err != nil {
		t.Fatal(err)
	}
	return n
}
