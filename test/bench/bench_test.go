package main

import (
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
	checked := []byte("u-sealed" + string(rawTask()))
	if err := db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("pawl")).Put(checked, withChecksum(checked, []byte("x")))
	}); err != nil {
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
				t.Errorf("%q has no checksum", k)
			}
		}
		if n != 2501 {
			t.Errorf("%d entries with a checksum", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
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
