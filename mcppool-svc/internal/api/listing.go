package api

import (
	"cmp"
	"slices"
	"sync"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/digest"
)

// listing holds the tools of a catalog as some users may see them: those that the rules do not deny and that wait for no approval, or those that wait. It
// is immutable, and made once for all users with the same key.
type listing struct {
	key      listingKey
	tools    []*catalog.Tool // by name
	messages []*commonv1.Tool
	hash     string // of messages
}

// listingKey is what a listing of a catalog depends on.
type listingKey struct {
	server      *registry.Server // which a change of the configuration replaces
	review      *pin.Review
	quarantined bool
	rules       string // see registry.Server.RulesFor
}

func (k listingKey) equal(other listingKey) bool {
	return k.server == other.server && k.quarantined == other.quarantined && k.rules == other.rules && k.review.Equal(other.review)
}

// maxListings bounds the listings of a catalog.
const maxListings = 16

// listings are the last used listings of a catalog, which keeps them in Derived.
type listings struct {
	mu   sync.Mutex
	kept []*listing // guarded by mu; the last used first
}

type listingsKey struct{}

// listingOf returns the listing of a catalog for a user.
func listingOf(c *catalog.Catalog, key listingKey, user string) (*listing, error) {
	known, ok := c.Derived.Load(listingsKey{})
	if !ok {
		known, _ = c.Derived.LoadOrStore(listingsKey{}, &listings{})
	}
	all := known.(*listings)
	all.mu.Lock() // also while the listing is made, which others may be waiting for
	defer all.mu.Unlock()
	i := slices.IndexFunc(all.kept, func(l *listing) bool { return l.key.equal(key) })
	if i < 0 {
		l, err := newListing(c, key, user)
		if err != nil {
			return nil, err
		}
		i = min(len(all.kept), maxListings-1)
		all.kept = append(all.kept[:i], l)
	}
	l := all.kept[i]
	copy(all.kept[1:i+1], all.kept[:i])
	all.kept[0] = l
	return l, nil
}

func newListing(c *catalog.Catalog, key listingKey, user string) (l *listing, err error) {
	l = &listing{key: key}
	for _, t := range c.Tools {
		policy, decision := key.server.PolicyFor(user, t.Name, t.Hints)
		if key.review.Holds(t.Name) == key.quarantined && decision != registry.Deny {
			l.tools, l.messages = append(l.tools, t), append(l.messages, toolMessage(key.server, t, policy))
		}
	}
	l.hash, err = digest.Of(l.messages)
	return l, err
}

// after returns the index of the first tool after a name.
func (l *listing) after(name string) int {
	i, found := slices.BinarySearchFunc(l.tools, name, func(t *catalog.Tool, name string) int { return cmp.Compare(t.Name, name) })
	if found {
		i++
	}
	return i
}
