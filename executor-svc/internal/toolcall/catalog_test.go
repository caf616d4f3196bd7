package toolcall

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// pool is a server with two tools, one on each page.
type pool struct {
	mu      sync.Mutex
	version int  // guarded by mu; of the tools
	changes bool // guarded by mu; the tools change between pages
	unnamed bool // the pool knows no catalogs
	pages   int  // guarded by mu; pages with tools
}

func (p *pool) list(_ context.Context, req *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	page := &mcppoolv1.ListToolsResponse{PoolId: "replica", LateRelease: true}
	if !p.unnamed {
		page.CatalogHash = strconv.Itoa(p.version)
	}
	if req.GetNoTools() && !p.unnamed {
		return page, nil
	}
	p.pages++
	name := "a"
	if req.GetPageToken() == "" {
		page.NextPageToken = "more"
	} else {
		name = "b"
	}
	page.Tools = []*commonv1.Tool{{Id: req.GetMcpId() + "/" + name, Description: fmt.Sprint("version ", p.version)}}
	if p.changes {
		p.version++
	}
	return page, nil
}

func read(t *testing.T, s *Lister, p *pool) *List {
	t.Helper()
	l := &List{ID: "srv"}
	if err := s.Read(t.Context(), l, "session", p.list); err != nil || l.PoolID != "replica" || !l.LateRelease || len(l.Catalog.Tools) != 2 {
		t.Fatalf("%v, %v", l, err)
	}
	return l
}

// The tools of a server are read once, and all tasks share them. A changed definition makes another catalog; a task keeps the one that it has.
func TestCatalogsAreShared(t *testing.T) {
	s, p := NewLister(), &pool{}
	lists := make([]*List, 20)
	var all sync.WaitGroup
	for i := range lists {
		all.Go(func() { lists[i] = read(t, s, p) })
	}
	all.Wait()
	first := lists[0].Catalog
	for _, l := range lists {
		if l.Catalog != first {
			t.Fatal("tasks have copies of a catalog")
		}
	}
	if p.pages != 2 || first.Hash != "0" {
		t.Errorf("%d pages of %s were read", p.pages, first.Hash)
	}
	p.version++
	second := read(t, s, p).Catalog
	if second == first || second.Hash != "1" || second.Find("srv/b").GetDescription() != "version 1" || first.Find("srv/b").GetDescription() != "version 0" {
		t.Errorf("%v became %v", first, second)
	}
}

// Tools that change while they are read have no hash, and are not shared.
func TestMixedCatalogIsNotKept(t *testing.T) {
	s, p := NewLister(), &pool{changes: true}
	mixed := read(t, s, p).Catalog
	p.changes = false
	if next := read(t, s, p).Catalog; mixed.Hash != "" || next.Hash != strconv.Itoa(p.version) || next == mixed {
		t.Errorf("%v, then %v", mixed, next)
	}
}

// A pool that names no catalogs sends the tools with its first response.
func TestPoolWithoutCatalogs(t *testing.T) {
	s, p := NewLister(), &pool{unnamed: true}
	for range 2 {
		if c := read(t, s, p).Catalog; c.Hash != "" {
			t.Errorf("%v", c)
		}
	}
	if p.pages != 4 {
		t.Errorf("%d pages were read", p.pages)
	}
}
