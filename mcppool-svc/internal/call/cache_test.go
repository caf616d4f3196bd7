package call

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

func textResult(text string) *mcppoolv1.CallResult {
	return &mcppoolv1.CallResult{CallId: "c1", Content: []*mcppoolv1.Content{{Kind: &mcppoolv1.Content_Text{Text: text}}}}
}

func TestCacheKeepsUntilItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache(0, time.Now)
		k := cacheKey{user: "ann"}
		c.put(k, textResult("one"), time.Minute)
		<-time.After(time.Minute - time.Second)
		got := c.get(k)
		if got.GetContent()[0].GetText() != "one" || !got.GetCached() || got.GetCallId() != "" {
			t.Errorf("kept: %v", got)
		}
		<-time.After(2 * time.Second)
		if c.get(k) != nil || c.Stats() != (CacheStats{Hits: 1, Misses: 1}) {
			t.Errorf("after its time: %+v", c.Stats())
		}
		c.put(k, textResult("two"), time.Minute)
		c.put(k, textResult("three"), time.Minute)
		if c.get(k).GetContent()[0].GetText() != "three" {
			t.Error("not replaced")
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	c := NewCache(100_000, time.Now)
	for i := range 1000 {
		c.put(cacheKey{user: "ann", writes: uint64(i)}, textResult(strings.Repeat("x", 1000)), time.Minute)
	}
	c.results.CleanUp()
	if n := c.results.WeightedSize(); n > 100_000 || n == 0 {
		t.Errorf("%d bytes are kept", n)
	}
	large := cacheKey{tool: "large"}
	if c.put(large, textResult(strings.Repeat("x", 20_000)), time.Minute); c.get(large) != nil {
		t.Error("a result that is too large was kept")
	}
}
