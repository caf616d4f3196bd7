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

// firstName is the name under which the id of an origin's first review is stored. A tool with that name needs an approval.
const firstName = "\x00first"

// server holds the pins of an MCP server. It is immutable once it is shared.
type server struct {
	pins  map[string]pin // as stored, by tool name
	first string         // id of the first review, which accepts all tools; empty if none is stored

	valid map[string]string // hashes of the valid pins, by tool name
	// late has the hashes that were accepted under a first review other than first. They are valid only if the pinning accepts new tools.
	late map[string]string

	review *Review     // cached; nil if none
	input  reviewInput // of review
}

// pin is the stored state of a tool.
type pin struct {
	approved string // hash; empty if none
	seen     string // hash of the accepted definition; empty if none
	review   string // id of the first review at the time when seen was accepted
}

// idOf returns the id of a first review: a hash of the tools that it accepts, so that replicas that list the same tools agree. If several
// replicas make a first review, the earliest counts.
func idOf(tools []*catalog.Tool) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, t := range tools { // in the catalog's order, which is by name
		_ = enc.Encode([]string{t.Name, t.Hash}) // writing to a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// isNew reports whether no tool of the server was accepted or approved yet.
func (s *server) isNew() bool { return s.first == "" && len(s.valid) == 0 }

// acceptedHash returns the hash that a tool must have; false if the tool is not known.
func (s *server) acceptedHash(pinning registry.Pinning, name string) (string, bool) {
	hash, known := s.valid[name]
	if !known && pinning == registry.PinAllowNew {
		hash, known = s.late[name]
	}
	return hash, known
}

// with returns a copy of the server with changed pins and a first review. An empty pin deletes.
func (s *server) with(changed map[string]pin, first string) *server {
	next := &server{
		pins: make(map[string]pin, len(s.pins)+len(changed)), first: first, valid: make(map[string]string, len(s.pins)), late: make(map[string]string),
	}
	maps.Copy(next.pins, s.pins)
	maps.Copy(next.pins, changed)
	for name, p := range next.pins {
		switch {
		case p.approved != "":
			next.valid[name] = p.approved
		case p.seen == "":
			delete(next.pins, name)
		case p.review == first:
			next.valid[name] = p.seen
		default:
			next.late[name] = p.seen
		}
	}
	return next
}

// read returns the stored pin of a tool, or for firstName the id of the first review.
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

// firstChange returns the change that stores the id of a first review.
func (b *Book) firstChange(origin, id string) store.Change {
	return encode(bucketSeen, origin, firstName, Record{Version: recordVersion, Review: id, Time: b.now().UTC()})
}
