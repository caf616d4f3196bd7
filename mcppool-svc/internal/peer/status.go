package peer

import (
	"slices"
	"strings"
	"time"
)

// Status is how it stands with a peer.
type Status struct {
	Addr    string
	Up      bool          // the last contact went well
	Foreign bool          // it did not because the keys differ
	Contact time.Duration // since the last contact that went well; negative: there was none
	Lag     time.Duration // since all was taken in that it had; negative: that never was
	Offset  time.Duration // how far its clock is ahead
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
		list = append(list, Status{Addr: p.addr, Up: p.up, Foreign: p.foreign, Contact: since(p.contact), Lag: since(p.caught), Offset: p.offset})
		s.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.Addr, b.Addr) })
	return list
}
