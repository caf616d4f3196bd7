package bolt

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	// probeInterval is the shortest time between two probes of a disk that failed.
	probeInterval = time.Second
	// probeBytes is as much as a record of the log takes.
	probeBytes = maxRecord
)

// health records whether the disk takes changes.
type health struct {
	mu     sync.Mutex // guards the fields below
	err    error      // why the last write failed; nil if it succeeded
	probed time.Time
}

// note records the result of a write. errSync stays, because only a restart finds out what is on the disk.
func (h *health) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !errors.Is(h.err, errSync) {
		h.err = err
	}
}

// Healthy implements journal.Tasks. While writes fail, it probes the disk, because without it there may be no further write that succeeds.
func (s *Store) Healthy() error {
	h := &s.file.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil && !errors.Is(h.err, errSync) && time.Since(h.probed) >= probeInterval {
		h.err = probe(s.path + ".probe")
		h.probed = time.Now()
	}
	return h.err
}

// probe writes a file and removes it.
func probe(path string) error {
	err := errors.Join(os.WriteFile(path, make([]byte, probeBytes), 0o600), os.Remove(path))
	if err != nil {
		return fmt.Errorf("the disk takes no data: %w", err)
	}
	return nil
}
