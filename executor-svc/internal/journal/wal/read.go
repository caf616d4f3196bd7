package wal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
)

// The errors of reading a log.
var (
	// ErrMissing: one of the files does not exist.
	ErrMissing = errors.New("the log is missing")
	// ErrForeign: the log has another id.
	ErrForeign = errors.New("it is the log of another journal")
	// ErrDamaged: records are missing or differ from what was written.
	ErrDamaged = errors.New("the log is damaged")
)

// Paths returns the names of a log's files, which begin with path.
func Paths(path string) [2]string { return [2]string{path + "-log0", path + "-log1"} }

// Remove deletes a log.
func Remove(path string) (err error) {
	for _, name := range Paths(path) {
		if e := os.Remove(name); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Size returns the size of a log's files, in bytes.
func Size(path string) (size int64) {
	for _, name := range Paths(path) {
		if info, err := os.Stat(name); err == nil {
			size += info.Size()
		}
	}
	return size
}

// CheckOwner returns ErrForeign if there is a log with another id.
func CheckOwner(path string, id ID) error {
	for _, name := range Paths(path) {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		raw := make([]byte, headerSize)
		_, err = io.ReadFull(f, raw)
		_ = f.Close()
		if owner, _, bad := readHeader(raw); err == nil && bad == nil && owner != id {
			return fmt.Errorf("%s: %w", name, ErrForeign)
		}
	}
	return nil
}

// Found is the result of reading a log.
type Found struct {
	// Last is the number of the last record; if none was read, the number after which reading began.
	Last uint64
	// Torn describes an incomplete record after the last record. It is nil if there is none, or if not even its number is complete.
	Torn error
}

// Read calls visit with the payloads of the records after a number, in order. visit may keep a payload. An incomplete record ends the
// log; if a complete record follows it, the log is damaged.
func Read(path string, id ID, after uint64, visit func(payload []byte) error) (Found, error) {
	r := &reader{id: id, next: after + 1}
	for _, name := range Paths(path) {
		if err := r.load(name); err != nil {
			return Found{}, err
		}
	}
	if !slices.ContainsFunc(r.files, func(f *contents) bool { return f.valid }) {
		return Found{}, fmt.Errorf("%s: none of its files has a valid header: %w", path, ErrDamaged)
	}
	slices.SortFunc(r.files, func(a, b *contents) int { return cmp.Compare(a.first, b.first) })
	for i, f := range r.files {
		until := uint64(math.MaxUint64)
		if i+1 < len(r.files) {
			// The other file was begun later and has the later records.
			until = r.files[i+1].first
		}
		if err := r.read(f, until, visit); err != nil {
			return Found{}, err
		}
	}
	found := Found{Last: r.next - 1}
	for _, f := range r.files {
		if number := f.completeAfterEnd(r.next, id); number != 0 {
			return Found{}, fmt.Errorf("%s: record %d is not valid, but record %d follows it: %w", f.name, r.next, number, ErrDamaged)
		}
		if f.valid && numberAt(f.raw, f.end) == r.next {
			found.Torn = fmt.Errorf("record %d of the log is incomplete: either its write was interrupted, and no stored change is missing, or it was damaged later, and its changes are missing", r.next)
		}
	}
	return found, nil
}

type reader struct {
	id    ID
	next  uint64
	files []*contents
}

// contents is a file of a log.
type contents struct {
	name  string
	raw   []byte
	valid bool
	first uint64
	// end is the position after the last complete record.
	end int
}

func (r *reader) load(name string) error {
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, ErrMissing)
	}
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	f := &contents{name: name, raw: raw}
	id, first, err := readHeader(raw)
	switch {
	case err == nil && id != r.id:
		return fmt.Errorf("%s: %w", name, ErrForeign)
	case err == nil:
		f.valid, f.first, f.end = true, first, headerSize
	default:
		// The file is empty, or its header is incomplete or damaged; records may follow.
	}
	r.files = append(r.files, f)
	return nil
}

// read calls visit with the payloads of the records of one file, up to a number.
func (r *reader) read(f *contents, until uint64, visit func(payload []byte) error) error {
	if !f.valid {
		return nil
	}
	if f.first > r.next {
		return fmt.Errorf("%s: it begins with record %d, and %d is missing: %w", f.name, f.first, r.next, ErrDamaged)
	}
	for number := f.first; number < until; number++ {
		payload, next, ok := recordAt(f.raw, f.end, &r.id, number)
		if !ok {
			return nil
		}
		f.end = next
		if number == r.next {
			if err := visit(payload); err != nil {
				return err
			}
			r.next++
		}
	}
	return nil
}

// maxAhead bounds how far ahead of an expected number a record is looked for.
const maxAhead = 1 << 20

// completeAfterEnd returns the number of a complete record behind the end that has this number or a greater one, or 0. Such a record means
// damage, because a record is written only after all records before it are durable.
func (f *contents) completeAfterEnd(number uint64, id ID) uint64 {
	for at := f.end; at+recordSize <= len(f.raw); at += alignment {
		n := numberAt(f.raw, at)
		if n < number || n-number > maxAhead {
			continue
		}
		if _, _, ok := recordAt(f.raw, at, &id, n); ok {
			return n
		}
	}
	return 0
}
