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

// The header that is read from the file of an open store has the values that bbolt itself reports.
func TestBoltMeta(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for range 3 {
		before := readMeta(path)
		if err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("x"))
			if err != nil {
				return err
			}
			return b.Put([]byte("k"), make([]byte, 100_000))
		}); err != nil {
			t.Fatal(err)
		}
		got := readMeta(path)
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
	zeros := filepath.Join(t.TempDir(), "zeros")
	if err := os.WriteFile(zeros, make([]byte, 3*os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&bench{}).try(func() { readMeta(zeros) }); err == nil || !strings.Contains(err.Error(), "no bbolt header") {
		t.Errorf("a file of zeros: %v", err)
	}
}

// A noisy neighbour is left out: the medians are those of the quieter rounds.
func TestQuieterRounds(t *testing.T) {
	c := contender{samples: map[int][]sample{
		32: {{perSecond: 1, others: 0.7}, {perSecond: 10, others: 0.1}, {perSecond: 2, others: 0.9}, {perSecond: 12, others: 0}, {perSecond: 11, others: 0.2}},
		1:  {{perSecond: 5}},
	}}
	for level, want := range map[int]float64{32: 11, 1: 5, 128: 0} {
		if got := c.of(level, perSecond); got != want {
			t.Errorf("at %d: %v per second, want %v", level, got, want)
		}
	}
}

// Calls that the tool saw twice, and steps that it never saw.
func TestKillResultCount(t *testing.T) {
	a := killResult{succeeded: inFlight}
	if a.count([]byte("a\nb\na\nc\n")); a.calls != 4 || a.repeated != 1 || a.never != inFlight*stepsPerTask-3 {
		t.Errorf("%+v", a)
	}
}

// The error of a program that ended before it served says so, and has its output.
func TestProcessEnded(t *testing.T) {
	b := &bench{work: t.TempDir()}
	err := b.try(func() {
		b.start("broken", nil, "sh", "-c", "echo no port").await(t.Context(), func(context.Context) bool { return false })
	})
	if want := "starting broken: it has ended; its output:\nno port"; err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}
