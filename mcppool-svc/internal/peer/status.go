package peer

import (
	"slices"
	"strings"
	"time"
)

// Status is the state of a peer.
type Status struct {
	Addr        string
	Up          bool          // the last contact succeeded
	KeyMismatch bool          // the last contact failed because the keys differ
	Contact     time.Duration // time since the last successful contact; negative: never
	Lag         time.Duration // time since we last had all of its changes; negative: never
	Offset      time.Duration // how far its clock is ahead of ours
}

// Status reports on the peers, by address.
func (s *Set) Status() []Status {
	now := s.cfg.Now()
	since := func(t time.Time) time.Duration {
		if t.IsZero() {
			return -1
		}
		return max(now.Sub(t), 0)
	}
	var list []Status
	for _, p := range s.some(func(p *peer) bool { return !p.self }) {
		s.mu.Lock()
		list = append(list, Status{Addr: p.addr, Up: p.up, KeyMismatch: p.keyMismatch, Contact: since(p.contact), Lag: since(p.caught), Offset: p.offset})
		s.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.Addr, b.Addr) })
	return list
}
