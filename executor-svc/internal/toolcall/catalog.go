package toolcall

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// Catalog holds the tools of a server as a user may use them. It is immutable, and tasks share it.
type Catalog struct {
	// Catalog has no hash if the pool gives none.
	*plannerv1.Catalog
	byID map[string]*commonv1.Tool
}

// NewCatalog makes a catalog.
func NewCatalog(hash string, tools []*commonv1.Tool) *Catalog {
	c := &Catalog{Catalog: &plannerv1.Catalog{Hash: hash, Tools: tools}, byID: make(map[string]*commonv1.Tool, len(tools))}
	for _, t := range tools {
		c.byID[t.GetId()] = t
	}
	return c
}

// Find returns the tool with an id, nil if there is none. A nil catalog has no tools.
func (c *Catalog) Find(id string) *commonv1.Tool {
	if c == nil {
		return nil
	}
	return c.byID[id]
}

// weigh returns about how many bytes a catalog takes.
func weigh(_ string, c *Catalog) uint32 {
	const overhead = 512 // of a tool
	return uint32(min(proto.Size(c)+overhead*len(c.Tools), 1<<31))
}

// readTimeout bounds the reading of all pages of a catalog.
const readTimeout = 2 * time.Minute

// ListTools sends a request for tools of the list's server.
type ListTools func(context.Context, *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error)

// Read fills a list with the server's tools. It asks the pool for the hash of the catalog, and reads the tools only if no other list had that catalog.
func (s *Lister) Read(ctx context.Context, l *List, session string, list ListTools) error {
	first, err := list(ctx, &mcppoolv1.ListToolsRequest{McpId: l.ID, PageSize: 1000, SessionId: session, NoTools: true})
	if err != nil {
		return err
	}
	l.PoolID, l.LateRelease = first.GetPoolId(), first.GetLateRelease()
	hash := first.GetCatalogHash()
	if known, ok := s.catalogs.GetIfPresent(hash); ok {
		l.Catalog = known
		return nil
	}
	if hash == "" { // the pool is older than catalogs, and has sent the tools
		l.Catalog, err = readPages(ctx, l.ID, session, first, list)
		return err
	}
	// Other tasks may wait for the same catalog, so reading it does not end with this one.
	read := s.reads.DoChan(hash, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		return s.read(ctx, l.ID, session, list)
	})
	select {
	case r := <-read:
		l.Catalog, _ = r.Val.(*Catalog)
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read reads a catalog and keeps it.
func (s *Lister) read(ctx context.Context, id, session string, list ListTools) (*Catalog, error) {
	first, err := list(ctx, &mcppoolv1.ListToolsRequest{McpId: id, PageSize: 1000, SessionId: session})
	if err != nil {
		return nil, err
	}
	c, err := readPages(ctx, id, session, first, list)
	if err == nil && c.Hash != "" {
		s.catalogs.Set(c.Hash, c)
	}
	return c, err
}

// readPages returns the catalog that begins with a page. It has no hash if the server's tools changed between its pages.
func readPages(ctx context.Context, id, session string, page *mcppoolv1.ListToolsResponse, list ListTools) (*Catalog, error) {
	hash, tools := page.GetCatalogHash(), page.GetTools()
	for page.GetNextPageToken() != "" {
		var err error
		page, err = list(ctx, &mcppoolv1.ListToolsRequest{McpId: id, PageSize: 1000, SessionId: session, PageToken: page.GetNextPageToken()})
		if err != nil {
			return nil, err
		}
		if page.GetCatalogHash() != hash {
			hash = ""
		}
		tools = append(tools[:len(tools):len(tools)], page.GetTools()...)
	}
	return NewCatalog(hash, tools), nil
}

// Sends lets one request at a time send the tools of some catalogs to the planner, so that tasks that begin together do not send the same ones. Its zero
// value is ready.
type Sends struct {
	mu      sync.Mutex
	running map[string]chan struct{} // guarded by mu; by hashes
}

// sendTime is how long a request may take until its tools have certainly arrived.
const sendTime = time.Second

// Begin returns end for the caller that sends the catalogs, to be called when the planner has replied. Else another request is sending them; arrived is
// closed when they have arrived.
func (s *Sends) Begin(hashes []string) (end func(), arrived <-chan struct{}) {
	key := strings.Join(hashes, ",")
	s.mu.Lock()
	defer s.mu.Unlock()
	if running, ok := s.running[key]; ok {
		return nil, running
	}
	done := make(chan struct{})
	if s.running == nil {
		s.running = make(map[string]chan struct{})
	}
	s.running[key] = done
	finish := sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, key)
		close(done)
	})
	timer := time.AfterFunc(sendTime, finish)
	return func() {
		timer.Stop()
		finish()
	}, nil
}
