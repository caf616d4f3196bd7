package catalog

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// A tool out of the cache is the tool that was asked for, with what NewTool would have found out.
func TestCache(t *testing.T) {
	c := NewCache()
	one := &commonv1.Tool{Id: "a/read_it", Name: "read_it", Effect: commonv1.Effect_EFFECT_READ, InputSchemaJson: `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`}
	two := &commonv1.Tool{Id: "b/read_it", Name: "read_it", Effect: commonv1.Effect_EFFECT_WRITE, InputSchemaJson: one.GetInputSchemaJson()}
	other := &commonv1.Tool{Id: "a/read_it", Name: "read_it", InputSchemaJson: `{"type":"object"}`}
	for range 2 {
		for _, tool := range []*commonv1.Tool{one, two, other} {
			got, want := c.Tool(tool), NewTool(tool)
			if got.Tool != tool || len(got.Props) != len(want.Props) || got.Reads() != want.Reads() || got.Schema == nil {
				t.Errorf("%s: %+v", tool.GetId(), got)
			}
		}
	}
	if len(c.known) != 2 {
		t.Errorf("%d are known", len(c.known))
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := NewCache()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for i := range 3 * mostCached {
				c.Tool(&commonv1.Tool{Name: fmt.Sprint("t", i)})
			}
		})
	}
	all.Wait()
	if len(c.known) > mostCached {
		t.Errorf("%d are known", len(c.known))
	}
	for i := range 9 {
		c.Tool(&commonv1.Tool{Name: fmt.Sprint("t", i), InputSchemaJson: strings.Repeat(" ", mostCachedBytes/4)})
	}
	c.Tool(&commonv1.Tool{InputSchemaJson: strings.Repeat(" ", mostCachedBytes+1)})
	held := 0
	for d := range c.known {
		held += len(d.schema)
	}
	if held != c.bytes || held > mostCachedBytes {
		t.Errorf("%d bytes; the books say %d", held, c.bytes)
	}
}
