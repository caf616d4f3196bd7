package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"pawl.dev/mcppool-svc/internal/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a server whose tools can be changed.
type source struct {
	version atomic.Uint64
	delay   time.Duration

	mu    sync.Mutex
	tools []string
	err   error
	lists int
}

func (s *source) ToolsVersion() uint64 { return s.version.Load() }

func (s *source) ListTools(ctx context.Context) ([]json.RawMessage, error) {
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	var raw []json.RawMessage
	for _, name := range s.tools {
		raw = append(raw, json.RawMessage(fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)))
	}
	return raw, s.err
}

func (s *source) set(err error, tools ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.err = tools, err
}

func (s *source) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

func names(c *Catalog) string {
	var all []string
	for _, t := range c.Tools {
		all = append(all, t.Name)
	}
	return strings.Join(all, " ")
}

func TestCacheUntilTheServerSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{delay: time.Second}
		s.set(nil, "b", "a")
		c := NewCache(s, NewInterner())
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				got, err := c.Get(t.Context())
				if err != nil || names(got) != "a b" {
					t.Errorf("got %v, %v", got, err)
				}
			})
		}
		wg.Wait()
		if n := s.count(); n != 1 {
			t.Errorf("%d lists for one catalog", n)
		}
		s.set(nil, "a", "c")
		if got, err := c.Get(t.Context()); err != nil || names(got) != "a b" {
			t.Errorf("before the notification: %v, %v", got, err)
		}
		s.version.Add(1)
		if got, err := c.Get(t.Context()); err != nil || names(got) != "a c" {
			t.Errorf("after the notification: %v, %v", got, err)
		}
		s.set(nil, "d")
		time.Sleep(MaxAge)
		if got, err := c.Get(t.Context()); err != nil || names(got) != "d" {
			t.Errorf("after a long time: %v, %v", got, err)
		}
	})
}

func TestFindListsAgainForUnknownTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		s.set(nil, "a")
		c := NewCache(s, NewInterner())
		for range 5 {
			if _, tool, err := c.Find(t.Context(), "b"); tool != nil || err != nil {
				t.Errorf("found %v, %v", tool, err)
			}
		}
		if n := s.count(); n != 1 {
			t.Errorf("%d lists within a moment", n)
		}
		s.set(nil, "a", "b")
		time.Sleep(retryAge)
		if _, tool, err := c.Find(t.Context(), "b"); err != nil || tool == nil || tool.Name != "b" {
			t.Errorf("found %v, %v", tool, err)
		}
	})
}

func TestListOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{delay: time.Second}
		s.set(nil, "a")
		c := NewCache(s, NewInterner())
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := c.Get(ctx)
		if e := mcp.As(err); e.Kind != mcp.Interrupted || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}
		if got, err := c.Get(t.Context()); err != nil || names(got) != "a" || s.count() != 1 {
			t.Errorf("got %v, %v after %d lists", got, err, s.count())
		}
	})
}

func TestErrorsAreNotKept(t *testing.T) {
	s := &source{}
	s.set(&mcp.Error{Message: "broken"})
	c := NewCache(s, NewInterner())
	if _, err := c.Get(t.Context()); err == nil {
		t.Error("no error")
	}
	s.set(nil, "a")
	if _, err := c.Get(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestReadRefusesWhatIsAmbiguous(t *testing.T) {
	for want, tools := range map[string][]string{
		"two tools have the name": {`{"name":"a"}`, `{"name":"a"}`},
		"comes twice":             {`{"name":"a","name":"b"}`},
		`"Name" comes twice`:      {`{"name":"a","Name":"b"}`},
		"no name":                 {`{"description":"x"}`},
		"not a string":            {`{"name":3}`},
		"`description`":           {`{"name":"a","description":{}}`},
		"not a JSON object":       {`[]`},
		"annotations":             {`{"name":"a","annotations":{"readOnlyHint":true,"readonlyhint":false}}`},
		"UTF-8":                   {"{\"name\":\"a\",\"title\":\"\xff\"}"},
	} {
		var raw []json.RawMessage
		for _, tool := range tools {
			raw = append(raw, json.RawMessage(tool))
		}
		_, err := Read(raw)
		if err == nil || mcp.As(err).Kind != mcp.Protocol || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error = %v, want one with %q", tools, err, want)
		}
	}
}

func readOne(raw string) (*Tool, error) {
	c, err := Read([]json.RawMessage{json.RawMessage(raw)})
	if err != nil || len(c.Tools) == 0 {
		return nil, errors.Join(err, errors.New("it was left out"))
	}
	return c.Tools[0], nil
}

func TestParseKeepsSchemasExactly(t *testing.T) {
	raw := `{"name":"a", "inputSchema": {"type" : "object","x":1e400}, "outputSchema":null,"annotations":{"title":"A","readOnlyHint":true,"destructiveHint":"odd"}}`
	tool, err := readOne(raw)
	if err != nil {
		t.Fatal(err)
	}
	if tool.Input != `{"type" : "object","x":1e400}` || tool.Output != "" || tool.Title != "A" {
		t.Errorf("tool = %+v", tool)
	}
	if h := tool.Hints; h.ReadOnly == nil || !*h.ReadOnly || h.Destructive != nil || h.Idempotent != nil {
		t.Errorf("hints = %+v", h)
	}
	other, err := readOne(strings.Replace(raw, "1e400", "1e401", 1))
	if err != nil || other.Hash == tool.Hash {
		t.Errorf("another definition has the same hash (%v)", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	f.Add(`{"name":"a","Name":"b"}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if !json.Valid([]byte(raw)) {
			return // mcp-go passes on nothing else
		}
		tool, err := readOne(raw)
		if err == nil && (tool.Name == "" || len(tool.Hash) != 64) {
			t.Errorf("parsed %q to %+v", raw, tool)
		}
	})
}
