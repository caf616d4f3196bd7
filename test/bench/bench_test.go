package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

func TestQuantilesAndMedian(t *testing.T) {
	var values []time.Duration
	for i := range 100 {
		values = append(values, time.Duration(100-i)*time.Millisecond)
	}
	if p50, p99 := quantiles(values); p50 != 51 || p99 != 100 {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
	if p50, p99 := quantiles(nil); p50 != 0 || p99 != 0 {
		t.Errorf("of nothing: %v, %v", p50, p99)
	}
	for want, values := range map[float64][]float64{0: nil, 2: {9, 1, 2}, 2.5: {3, 1, 2, 9}} {
		if got := median(values); got != want {
			t.Errorf("median of %v: %v, want %v", values, got, want)
		}
	}
}

// The header that is read beside a running store says what bbolt itself says.
func TestBoltMeta(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db := openBolt(t, path)
	for range 3 {
		before := meta(t, path)
		if err := db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists([]byte("x"))
			if err != nil {
				return err
			}
			return tx.Bucket([]byte("x")).Put([]byte("k"), make([]byte, 100_000))
		}); err != nil {
			t.Fatal(err)
		}
		got := meta(t, path)
		if got.transaction != before.transaction+1 || got.used < 100_000 {
			t.Errorf("after %+v came %+v", before, got)
		}
		err := db.View(func(tx *bbolt.Tx) error {
			if int(got.transaction) != tx.ID() || got.used != tx.Size() {
				t.Errorf("%+v, bbolt says %d and %d", got, tx.ID(), tx.Size())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, make([]byte, 3*os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readMeta(other); err == nil || !strings.Contains(err.Error(), "no bbolt header") {
		t.Errorf("a file of zeros: %v", err)
	}
}

func openBolt(t *testing.T, path string) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func meta(t *testing.T, path string) boltMeta {
	t.Helper()
	m, err := readMeta(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const taskID = "01a1f966-81ea-750b-9d4f-c95bd020cfb9"

func rawTask() []byte {
	return []byte{0x01, 0xa1, 0xf9, 0x66, 0x81, 0xea, 0x75, 0x0b, 0x9d, 0x4f, 0xc9, 0x5b, 0xd0, 0x20, 0xcf, 0xb9}
}

// A task that is copied under other ids is there as often as was asked for, with its own id within its values.
func TestMultiply(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	db := openBolt(t, path)
	err := db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("pawl"))
		if err != nil {
			return err
		}
		for k, v := range map[string]string{
			"mschema": "1", "t" + string(rawTask()) + "\x00": "head", "t" + string(rawTask()) + "\x01": "12345678" + taskID,
			"t" + string(rawTask()) + "\x02" + "00000001": "record", "ulocal\x00" + string(rawTask()): "index",
		} {
			if err := b.Put([]byte(k), []byte(v)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Values that end with a checksum over key and value get a new one; others stay as they are.
	sealed := []byte("u-sealed" + string(rawTask()))
	if err := db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("pawl")).Put(sealed, seal(sealed, []byte("x"))) }); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	last, err := multiply(path, taskID, 2500)
	if err != nil {
		t.Fatal(err)
	}
	if last != "01a1f966-81ea-750b-9d4f-c95b000009c3" {
		t.Errorf("the last copy is %s", last)
	}
	again := openBolt(t, path)
	err = again.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte("pawl")).Cursor()
		n := 0
		for k, v := c.Seek([]byte("u-sealed")); k != nil && strings.HasPrefix(string(k), "u-sealed"); k, v = c.Next() {
			if n++; !isSealed(k, v) {
				t.Errorf("%q is not sealed", k)
			}
		}
		if n != 2501 {
			t.Errorf("%d sealed entries", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	tasks, err := readTasks(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(tasks) != 2501 {
		t.Errorf("%d tasks", len(tasks))
	}
	for id, task := range tasks {
		if task.head != 18+4 || task.checkpoint != 18+8+36 || task.records != 26+6 || task.index != 23+5+24+5 || task.running {
			t.Errorf("task %x: %+v", id, task)
		}
	}
}

func TestShape(t *testing.T) {
	tasks := map[string]*stored{
		"ended":   {head: 100, checkpoint: 10, records: 3000, index: 20, sizes: make([]int, 22)},
		"another": {head: 100, checkpoint: 10, records: 3200, index: 20, sizes: make([]int, 23)},
		"running": {head: 100, checkpoint: 150, records: 10, running: true},
		"agent":   {index: 40},
	}
	got, err := shapeOf(tasks)
	if want := (shape{commits: 23, checkpoint: 150, records: 3100, head: 100, index: 20}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	late := &stored{sizes: []int{900, 100, 100, 100, 100, 100, 100, 100, 100, 500, 500}}
	if got := late.lately(); got != 100 {
		t.Errorf("a record lately has %v bytes", got)
	}
	delete(tasks, "running")
	if _, err := shapeOf(tasks); err == nil {
		t.Error("without a running task nothing is known of checkpoints")
	}
}

// The loop writes what its shape says: as many commits, and the bytes of a task.
func TestBoltLoop(t *testing.T) {
	b := &bench{work: t.TempDir()}
	want := shape{commits: 5, checkpoint: 120, records: 1000, head: 300, index: 30}
	l, err := b.startBoltLoop(want)
	if err != nil {
		t.Fatal(err)
	}
	path := l.db.Path()
	before := meta(t, path).transaction
	for range 3 {
		if err := l.run(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if got := meta(t, path).transaction - before; got != 15 {
		t.Errorf("%d transactions", got)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	tasks, err := readTasks(path)
	if err != nil || len(tasks) != 3 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	for id, task := range tasks {
		if task.head != want.head || task.records != want.records || task.checkpoint != want.checkpoint || task.index != want.index {
			t.Errorf("task %x: %+v", id, task)
		}
	}
}

// A noisy neighbour is left out: the medians are those of the quieter rounds.
func TestQuieterRounds(t *testing.T) {
	s := samples{32: {{perSecond: 1, others: 0.7}, {perSecond: 10, others: 0.1}, {perSecond: 2, others: 0.9}, {perSecond: 12, others: 0}, {perSecond: 11, others: 0.2}}}
	if got := s.of(32, perSecond); got != 11 {
		t.Errorf("%v per second", got)
	}
	if got := (samples{1: {{perSecond: 5}}}).of(1, perSecond); got != 5 {
		t.Errorf("of one round: %v", got)
	}
	if got := s.of(1, perSecond); got != 0 {
		t.Errorf("of none: %v", got)
	}
}

func TestMetric(t *testing.T) {
	out := "goos: linux\nBenchmarkExecutor/ahead=true/at-1-2 \t 1234\t 5678 ns/op\t 2841 steps/s\t 31.5 B/step\nBenchmarkExecutor/ahead=true/at-128-2\t1\t2 ns/op\t1.5e+04 steps/s\n"
	for name, want := range map[string]float64{"BenchmarkExecutor/ahead=true/at-1": 2841, "BenchmarkExecutor/ahead=true/at-128": 15000} {
		if got, ok := metric(out, name, "steps/s"); !ok || got != want {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	if _, ok := metric(out, "BenchmarkExecutor/ahead=true/at-32", "steps/s"); ok {
		t.Error("found what is not there")
	}
}

// What the tool saw twice, and what it never saw.
func TestAftermath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "effects")
	if err := os.WriteFile(path, []byte("a\nb\na\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := aftermath{ended: killed}
	if err := a.count(path); err != nil || a.calls != 4 || a.twice != 1 || a.lost != killed*stepsPerTask-3 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestProcfs(t *testing.T) {
	if mb, err := anonymousMB(os.Getpid()); err != nil || mb <= 0 || mb > 10_000 {
		t.Errorf("memory %v MB, %v", mb, err)
	}
	own, err := cpuSeconds(os.Getpid())
	if err != nil || own < 0 {
		t.Errorf("CPU %v s, %v", own, err)
	}
	if all, err := machineSeconds(); err != nil || all < own {
		t.Errorf("the machine computed %v s, this process %v; %v", all, own, err)
	}
}
