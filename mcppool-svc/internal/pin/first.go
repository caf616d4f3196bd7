package pin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/store"
)

// firstName is under which name the first review of an origin is noted. No tool is let through under it at first use.
const firstName = "\x00first"

// server holds the pins of a server. Once others see it, it is replaced, never changed.
type server struct {
	pins  map[string]pin // as stored, by tool name
	first string         // the review in which everything was let through; empty if none is stored

	hashes map[string]string // of pins: those that count
	apart  map[string]string // of pins: those of a first review that a later look found not to be the earliest; they count only if pinning allows new tools

	of     question
	answer *Review // to it
}

// pin is the stored state of a tool.
type pin struct {
	approved string // hash
	seen     string // hash
	review   string // the first review that accepted seen
}

// idOf returns the id of a first review, a hash of the tools that it accepted, so that replicas that saw the same tools agree. Of the reviews of
// several replicas the earliest stays, so that a replica that knew nothing of the others lifts none of their quarantines.
func idOf(tools []*catalog.Tool) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, t := range tools { // in the catalog's order, which is by name
		_ = enc.Encode([]string{t.Name, t.Hash}) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// unknown reports whether nothing of a server was let through yet, nor approved.
func (s *server) unknown() bool { return s.first == "" && len(s.hashes) == 0 }

// counted fills in which pins count: those approved, and those of the first review.
func (s *server) counted() *server {
	s.hashes, s.apart = make(map[string]string, len(s.pins)), make(map[string]string)
	for name, p := range s.pins {
		switch {
		case p.approved != "":
			s.hashes[name] = p.approved
		case p.review == s.first:
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

// with returns the server with some names read again.
func (s *server) with(read map[string]pin, first string) *server {
	next := &server{pins: maps.Clone(s.pins), first: first}
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

// read returns the stored value of a name: a tool's pin, or the first review for firstName.
func (b *Book) read(origin, name string) (p pin, first string, err error) {
	key := origin + "\x00" + name
	approved, isApproved, err := b.get(bucketApproved, key)
	if err != nil {
		return p, "", err
	}
	seen, isSeen, err := b.get(bucketSeen, key)
	if err != nil {
		return p, "", err
	}
	if isApproved {
		p.approved = approved.Hash
	}
	switch {
	case isSeen && name == firstName:
		first = seen.Review
	case isSeen:
		p.seen, p.review = seen.Hash, seen.Review
	}
	return p, first, nil
}

// firstChange notes a first review.
func (b *Book) firstChange(origin, id string) store.Change {
	return encode(bucketSeen, origin, firstName, Record{Version: recordVersion, Review: id, Time: b.now().UTC()})
}
