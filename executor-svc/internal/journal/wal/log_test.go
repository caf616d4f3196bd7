package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pawl.dev/executor-svc/internal/journal/wal"
)

var id = wal.ID{1, 2, 3}

func payload(n uint64, size int) []byte {
	return append(fmt.Appendf(nil, "record %d ", n), bytes.Repeat([]byte{byte(n)}, size)...)
}

// read returns the payloads of the records after a number, and the other results of wal.Read.
func read(path string, after uint64) (all []string, found wal.Found, err error) {
	found, err = wal.Read(path, id, after, func(p []byte) error {
		all = append(all, string(p))
		return nil
	})
	return all, found, err
}

// written creates a log with that many records of growing sizes, numbered from 1, and returns their payloads.
func written(t *testing.T, path string, records int) (all []string) {
	t.Helper()
	l, err := wal.Create(path, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); n <= uint64(records); n++ {
		p := payload(n, int(n)*7)
		if err := l.Append(p); err != nil {
			t.Fatal(err)
		}
		all = append(all, string(p))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// Appended records are read back, whichever part of them was applied and whichever file they are in.
func TestFilesTakeTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	l, err := wal.Create(path, id, 41)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all := map[uint64]string{}
	// The records up to frozen are in the other file until they are applied.
	applied, frozen := uint64(41), uint64(41)
	r := rand.New(rand.NewPCG(1, 2))
	for n := uint64(42); n < 160; n++ {
		size := r.IntN(2000)
		// They come late, because reading the log takes long while a file is large.
		if n == 125 || n == 142 {
			size = 4<<20 + 1 // more than a file keeps
		}
		all[n] = string(payload(n, size))
		if err := l.Append([]byte(all[n])); err != nil {
			t.Fatal(err)
		}
		got, found, err := read(path, applied)
		if err != nil || found.Last != n || found.Torn != nil || uint64(len(got)) != n-applied {
			t.Fatalf("after record %d, applied up to %d: %d records up to %d, %v, %v", n, applied, len(got), found.Last, found.Torn, err)
		}
		for i, p := range got {
			if p != all[applied+uint64(i)+1] {
				t.Fatalf("record %d is another one", applied+uint64(i)+1)
			}
		}
		switch {
		case applied != frozen && r.IntN(5) == 0:
			applied = frozen
		case applied == frozen && r.IntN(5) == 0:
			frozen = n
			l.Rotate()
		}
	}
	if size := wal.Size(path); size > 14<<20 {
		t.Errorf("the files take %d bytes, though what they hold at once is less", size)
	}
}

// A crash may cut the log off at any byte: the complete records are read and nothing else. No acknowledged record is missing, because
// a record is acknowledged once it is complete.
func TestCutAtEachByte(t *testing.T) {
	for _, rest := range []string{"nothing", "zeroes", "what was there before"} {
		t.Run(rest, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			all := written(t, path, 5)
			name := wal.Paths(path)[0]
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			ends := endsOf(raw, all)
			for cut := ends[2]; cut <= ends[4]; cut++ {
				torn := slices.Clone(raw[:cut])
				switch rest {
				case "zeroes":
					torn = append(torn, make([]byte, len(raw)-cut)...)
				case "what was there before":
					torn = append(torn, bytes.Repeat([]byte(all[0]), len(raw))[:len(raw)-cut]...)
				}
				if err := os.WriteFile(name, torn, 0o600); err != nil {
					t.Fatal(err)
				}
				want := 3
				if cut >= ends[3] {
					want++
				}
				if cut >= ends[4] {
					want++
				}
				got, found, err := read(path, 0)
				if err != nil || !slices.Equal(got, all[:want]) || found.Last != uint64(want) {
					t.Errorf("cut at %d: %d records up to %d, %v; want %d", cut, len(got), found.Last, err, want)
				}
			}
		})
	}
}

// endsOf finds where each record's payload ends.
func endsOf(raw []byte, all []string) (ends []int) {
	at := 0
	for _, p := range all {
		at += bytes.Index(raw[at:], []byte(p)) + len(p)
		ends = append(ends, at)
	}
	return ends
}

// A damaged record that others follow is not an interrupted write: the records after it were acknowledged.
func TestDamagedRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	all := written(t, path, 5)
	name := wal.Paths(path)[0]
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	ends := endsOf(raw, all)
	const header = 16
	for at := range ends[4] {
		spoiled := slices.Clone(raw)
		spoiled[at] ^= 4
		if err := os.WriteFile(name, spoiled, 0o600); err != nil {
			t.Fatal(err)
		}
		got, found, err := read(path, 2)
		inLast := at >= ends[4]-len(all[4])-header
		switch {
		case errors.Is(err, wal.ErrDamaged) || errors.Is(err, wal.ErrForeign):
			if inLast {
				t.Errorf("byte %d of the last record, which may have been cut off: %v", at, err)
			}
		case err != nil:
			t.Errorf("byte %d: %v, want ErrDamaged", at, err)
		case inLast:
			if !slices.Equal(got, all[2:4]) {
				t.Errorf("byte %d of the last record: %d records, want 2", at, len(got))
			}
			if numberIsWhole := at < ends[4]-len(all[4])-8 || at >= ends[4]-len(all[4]); numberIsWhole && found.Torn == nil {
				t.Errorf("byte %d of the last record: Torn is nil", at)
			}
		case !slices.Equal(got, all[2:]):
			t.Errorf("byte %d: %d records and no error", at, len(got))
		}
	}
}

func TestUnusableLog(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(path string) error
		want  error
	}{
		"the first file is gone":  {func(path string) error { return os.Remove(wal.Paths(path)[0]) }, wal.ErrMissing},
		"the second file is gone": {func(path string) error { return os.Remove(wal.Paths(path)[1]) }, wal.ErrMissing},
		"it is empty":             {func(path string) error { return os.Truncate(wal.Paths(path)[0], 0) }, wal.ErrDamaged},
		"it begins later": {func(path string) error {
			l, err := wal.Create(path, id, 7)
			return errors.Join(err, l.Close())
		}, wal.ErrDamaged},
		"it has another id": {func(path string) error {
			l, err := wal.Create(path, wal.ID{9}, 0)
			return errors.Join(err, l.Close())
		}, wal.ErrForeign},
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			written(t, path, 3)
			if err := wal.CheckOwner(path, id); err != nil {
				t.Error(err)
			}
			if err := c.spoil(path); err != nil {
				t.Fatal(err)
			}
			if _, _, err := read(path, 1); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if err := wal.CheckOwner(path, id); errors.Is(err, wal.ErrForeign) != errors.Is(c.want, wal.ErrForeign) {
				t.Errorf("its owner: %v", err)
			}
		})
	}
}

// A refused record that is on disk nevertheless does not replace the one that took its number in the other file.
func TestNumberThatWasTakenAgain(t *testing.T) {
	path, other := filepath.Join(t.TempDir(), "x"), filepath.Join(t.TempDir(), "x")
	all := written(t, path, 3)
	l, err := wal.Create(other, id, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Append([]byte("instead")), l.Close(), os.Rename(wal.Paths(other)[0], wal.Paths(path)[1])); err != nil {
		t.Fatal(err)
	}
	got, found, err := read(path, 0)
	if want := []string{all[0], all[1], "instead"}; err != nil || !slices.Equal(got, want) || found.Last != 3 {
		t.Errorf("%q up to %d, %v; want %q", got, found.Last, err, want)
	}
}

func TestRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	written(t, path, 1)
	if err := errors.Join(wal.Remove(path), wal.Remove(path)); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("%v, %v; want nothing", left, err)
	}
}
