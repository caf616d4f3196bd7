package wal_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"pawl.dev/executor-svc/internal/journal/wal"
)

// disk keeps the written bytes of its files apart from the durable ones. A power failure leaves any of the sectors that are not
// durable yet.
type disk struct {
	r     *rand.Rand
	files map[string]*diskFile
	// room is how many more bytes may be written; failSync makes syncs fail.
	room     int
	failSync bool
}

type diskFile struct {
	d       *disk
	now     []byte         // what a process sees
	durable []byte         // what survives a power failure
	dirty   map[int64]bool // sectors that differ
}

const sector = 512

func (d *disk) open(name string) (wal.File, error) {
	// The name must be there to be renamed.
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return nil, err
	}
	f := &diskFile{d: d, dirty: map[int64]bool{}}
	d.files[filepath.Base(name)] = f
	return f, nil
}

func (f *diskFile) WriteAt(b []byte, at int64) (int, error) {
	n := len(b)
	if f.d.room < n {
		n = f.d.room
	}
	f.d.room -= n
	if end := int(at) + n; end > len(f.now) {
		f.now = append(f.now, make([]byte, end-len(f.now))...)
	}
	copy(f.now[at:], b[:n])
	for s := at / sector; s <= (at+int64(n)-1)/sector && n > 0; s++ {
		f.dirty[s] = true
	}
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (f *diskFile) Truncate(size int64) error {
	f.d.room += max(0, len(f.now)-int(size))
	f.now = f.now[:min(int(size), len(f.now))]
	return nil
}

func (f *diskFile) Sync() error {
	if f.d.failSync {
		return syscall.EIO
	}
	f.durable = append([]byte(nil), f.now...)
	clear(f.dirty)
	return nil
}

func (f *diskFile) Close() error { return nil }

// left returns what a power failure now leaves of the file.
func (f *diskFile) left() []byte {
	size := len(f.durable)
	if f.d.r.IntN(2) == 0 {
		size = len(f.now) // the size may be durable before the content
	}
	raw := make([]byte, size)
	copy(raw, f.durable)
	for s := range f.dirty {
		if from := int(s) * sector; f.d.r.IntN(2) == 0 && from < len(f.now) {
			if to := min(from+sector, len(f.now)); from < size {
				copy(raw[from:], f.now[from:to])
			}
		}
	}
	return raw
}

// cut writes what a power failure leaves of the files to the paths from which they are read.
func (d *disk) cut(t *testing.T, path string) {
	t.Helper()
	for i, name := range wal.Paths(path) {
		base := filepath.Base(name)
		if f := d.files[base+".new"]; f != nil && i == 0 {
			base += ".new" // it was renamed
		}
		if err := os.WriteFile(name, d.files[base].left(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Power fails at any moment, disks are full and syncs fail: acknowledged records are read back, and beyond them at most the record
// that was being written.
func TestPowerFailure(t *testing.T) {
	const runs = 200
	whole := 0
	for seed := range uint64(runs) {
		p := &powered{t: t, seed: seed, path: filepath.Join(t.TempDir(), "x"), d: &disk{r: rand.New(rand.NewPCG(seed, 3)), files: map[string]*diskFile{}, room: 1 << 30}}
		whole += p.run()
	}
	t.Logf("%d runs, %d records were read", runs, whole)
	if whole < runs {
		t.Error("too few records to show anything")
	}
}

type powered struct {
	t    *testing.T
	seed uint64
	path string
	d    *disk
	log  *wal.Log
	// acked are the records by number; from applied+1 on they must be in the log.
	acked           map[uint64]string
	applied, frozen uint64
	// maybe is the newest record if it is unknown whether it is on disk.
	maybe string
}

func (p *powered) run() int {
	var err error
	if p.log, err = wal.CreateOn(p.path, id, 0, p.d.open); err != nil {
		p.t.Fatal(err)
	}
	p.acked = map[uint64]string{}
	for range p.d.r.IntN(40) {
		p.step()
	}
	return p.check()
}

func (p *powered) step() {
	r := p.d.r
	switch r.IntN(8) {
	case 0:
		p.applied = p.frozen
	case 1:
		if p.applied == p.frozen {
			p.frozen = p.log.Last()
			p.log.Rotate()
		}
	default:
		size := r.IntN(3000)
		if r.IntN(10) == 0 {
			size = r.IntN(100_000)
		}
		p.append(size)
	}
}

// append writes a record; sometimes there is no room for it, and sometimes it cannot be made durable.
func (p *powered) append(size int) {
	content := make([]byte, size+1)
	for i := range content {
		content[i] = byte(p.d.r.Uint32())
	}
	before, text := p.log.Last(), string(content)
	fails := p.d.r.IntN(6)
	if fails == 0 {
		p.d.room = p.d.r.IntN(size + 100)
	}
	p.d.failSync = fails == 1
	err := p.log.Append([]byte(text))
	p.d.room, p.d.failSync = 1<<30, false
	switch {
	case err == nil:
		p.acked[before+1], p.maybe = text, ""
	case p.log.Last() == before:
		if !errors.Is(err, syscall.ENOSPC) {
			p.t.Fatalf("seed %d: %v", p.seed, err)
		}
	case p.d.r.IntN(2) == 0: // the power fails now; else the caller makes the change durable elsewhere
		p.maybe = text
		p.check()
		fallthrough
	default:
		p.maybe = ""
		p.applied, p.frozen = p.log.Last(), p.log.Last()
		p.log.Rotate()
	}
}

func (p *powered) check() int {
	p.d.cut(p.t, p.path)
	got, found, err := read(p.path, p.applied)
	if err != nil {
		p.t.Fatalf("seed %d: %v", p.seed, err)
	}
	last := p.log.Last()
	if p.maybe != "" && found.Last == last-1 {
		last--
	}
	if found.Last != last || uint64(len(got)) != last-p.applied {
		p.t.Fatalf("seed %d: %d records up to %d, want those from %d to %d", p.seed, len(got), found.Last, p.applied+1, last)
	}
	for i, text := range got {
		if n := p.applied + uint64(i) + 1; text != p.acked[n] && (n != p.log.Last() || text != p.maybe) {
			p.t.Fatalf("seed %d: record %d is another one", p.seed, n)
		}
	}
	return len(got)
}
