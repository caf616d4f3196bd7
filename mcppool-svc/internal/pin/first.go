package pin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"time"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/store"
)

// firstName is under which name the first review of an origin is noted. No tool is let through under it at first use.
const firstName = "\x00first"

// server is what is known of one. It is replaced, never changed, once others see it.
type server struct {
	pins  map[string]pin // what is stored, by tool name
	first *first         // nil if none is stored

	hashes map[string]string // of pins: those that count
	apart  map[string]string // of pins: those of a first review that was not the first; they count where any new tool does

	of     question
	answer *Review // to it
}

// pin is what is stored of a tool.
type pin struct {
	approved string // hash
	seen     string // hash
	review   string // the first review that seen goes back to; of before such were noted where it is empty
	time     time.Time
}

// first is the review in which everything was let through. Of several replicas' the earliest one stays, so that who knew nothing
// of the others does not open what they hold.
type first struct {
	id   string
	time time.Time
}

// idOf names a first review by what it let through: replicas that saw the same agree.
func idOf(tools []*catalog.Tool) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, t := range tools { // in the catalog's order, which is by name
		_ = enc.Encode([]string{t.Name, t.Hash}) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// unknown reports whether nothing of a server was let through yet, nor approved.
func (s *server) unknown() bool { return s.first == nil && len(s.hashes) == 0 }

// older reports whether there are pins of before first reviews were noted, which are of one that came before the noted one.
func (s *server) older() bool {
	for _, p := range s.pins {
		if p.seen != "" && p.review == "" && (s.first == nil || p.time.Before(s.first.time)) {
			return true
		}
	}
	return false
}

// review is to which first review a new pin is to be added.
func (s *server) review() string {
	if s.first == nil || s.older() {
		return ""
	}
	return s.first.id
}

// counted fills in which pins count: those approved, those of before first reviews were noted, and those of the first one.
func (s *server) counted() *server {
	s.hashes, s.apart = make(map[string]string, len(s.pins)), make(map[string]string)
	id := s.review()
	for name, p := range s.pins {
		switch {
		case p.approved != "":
			s.hashes[name] = p.approved
		case p.review == "" || p.review == id:
			s.hashes[name] = p.seen
		default:
			s.apart[name] = p.seen
		}
	}
	return s
}

// known returns the hash that a tool must have; false if it is not known.
func (s *server) known(pinning registry.Pinning, name string) (string, bool) {
	hash, known := s.hashes[name]
	if !known && pinning == registry.PinAllowNew {
		hash, known = s.apart[name]
	}
	return hash, known
}

// with returns what is known once some names were read again.
func (s *server) with(read map[string]pin, f *first) *server {
	next := &server{pins: maps.Clone(s.pins), first: f}
	if next.pins == nil {
		next.pins = make(map[string]pin, len(read))
	}
	for name, p := range read {
		if p.approved == "" && p.seen == "" {
			delete(next.pins, name)
		} else {
			next.pins[name] = p
		}
	}
	return next.counted()
}

// read returns what is stored of a name: of a tool, and under firstName of the first review.
func (b *Book) read(origin, name string) (p pin, f *first, err error) {
	key := origin + "\x00" + name
	approved, isApproved, err := b.get(bucketApproved, key)
	if err != nil {
		return p, nil, err
	}
	seen, isSeen, err := b.get(bucketSeen, key)
	if err != nil {
		return p, nil, err
	}
	if isApproved {
		p.approved = approved.Hash
	}
	switch {
	case isSeen && name == firstName:
		f = &first{seen.Review, seen.Time}
	case isSeen:
		p.seen, p.review, p.time = seen.Hash, seen.Review, seen.Time
	}
	return p, f, nil
}

// firstChange notes a first review.
func (b *Book) firstChange(origin, id string) store.Change {
	return encode(bucketSeen, origin, firstName, Record{Version: recordVersion, Review: id, Time: b.now().UTC()})
}

// begin notes a first review for those of which only approvals are known, in files of before.
func (b *Book) begin() error {
	var changes []store.Change
	for origin, s := range b.servers {
		if s.first != nil || len(s.pins) == 0 || s.older() {
			continue
		}
		changes = append(changes, b.firstChange(origin, idOf(nil)))
	}
	if err := b.apply(changes); err != nil {
		return err
	}
	for _, c := range changes {
		origin, _ := cut(c.Key)
		if err := b.refresh(origin, []store.Change{c}); err != nil {
			return err
		}
	}
	return nil
}
