package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// offering connects to a fake child that offers more than tools.
func offering(t *testing.T, mode string) (Client, Offers) {
	t.Helper()
	c := dial(t, mode)
	o, ok := c.(Offers)
	if !ok {
		t.Fatal("the connection offers nothing beside tools")
	}
	return c, o
}

// say calls a tool of a fake and returns its text.
func say(t *testing.T, c Client, tool, args string) string {
	t.Helper()
	raw, err := callTool(t, c, tool, args)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal([]byte(raw), &result); err != nil || len(result.Content) != 1 {
		t.Fatalf("%s: %s", tool, raw)
	}
	return result.Content[0].Text
}

// TestOffers: offers beside tools are returned as the server sent them, in legacy and modern revisions.
func TestOffers(t *testing.T) {
	for _, mode := range []string{mcptest.Offering, mcptest.OfferingModern} {
		t.Run(mode, func(t *testing.T) {
			c, o := offering(t, mode)
			want := []string{"resources", "resource_subscriptions", "prompts", "completions", "logging"}
			if diff := cmp.Diff(want, c.Info().Capabilities); diff != "" {
				t.Error(diff)
			}
			for list, first := range map[List]string{
				Resources:         `{"uri":"demo://1","name":"one","title":"One","description":"The first.","mimeType":"text/plain","size":3}`,
				ResourceTemplates: `{"uriTemplate":"demo://{n}","name":"numbered","title":"Numbered","description":"Any number.","mimeType":"text/plain"}`,
				Prompts:           `{"name":"greet","title":"Greet","description":"Greets a person.","arguments":[{"name":"who","description":"whom","required":true}]}`,
			} {
				if entries, err := o.List(t.Context(), list); err != nil || string(entries[0]) != first {
					t.Errorf("%s = %s, %v", list, entries, err)
				}
			}
			if raw, err := o.Get(t.Context(), ReadResource("demo://1")); err != nil || !strings.Contains(string(raw), `"blob":"AAEC"`) {
				t.Errorf("read = %s, %v", raw, err)
			}
			if raw, err := o.Get(t.Context(), GetPrompt("greet", map[string]string{"who": "Ann"})); err != nil || !strings.Contains(string(raw), "Hello Ann") {
				t.Errorf("prompt = %s, %v", raw, err)
			}
			raw, err := o.Get(t.Context(), Completion{Prompt: "greet", Argument: "who", Value: "A"}.Query())
			if err != nil || string(raw) != `{"completion":{"values":["Aa","Ab"],"total":3,"hasMore":true}}` {
				t.Errorf("completion = %s, %v", raw, err)
			}
			if _, err := o.Get(t.Context(), ReadResource("demo://none")); As(err).Kind != Answered || As(err).Code != -32002 {
				t.Errorf("read of nothing: %v", err)
			}
		})
	}
}

// TestListIsKeptUntilItChanges: a list is fetched once, and again when the server says that it changed.
func TestListIsKeptUntilItChanges(t *testing.T) {
	c, o := offering(t, mcptest.Offering)
	changed := make(chan struct{}, 1)
	c.OnChange(func() { changed <- struct{}{} })
	for range 2 {
		if entries, err := o.List(t.Context(), Resources); err != nil || len(entries) != 3 {
			t.Fatalf("%d resources, %v", len(entries), err)
		}
	}
	if got := strings.Count(say(t, c, "heard", `{}`), "resources/list"); got != 2 { // pages
		t.Errorf("the list was asked for in %d pages, want 2", got)
	}
	say(t, c, "more", `{}`)
	<-changed
	if entries, err := o.List(t.Context(), Resources); err != nil || len(entries) != 4 {
		t.Errorf("%d resources, %v", len(entries), err)
	}
}

// TestSubscriptionsAreCounted: the server gets one subscription for each address, and its end after the last subscriber.
func TestSubscriptionsAreCounted(t *testing.T) {
	for _, mode := range []string{mcptest.Offering, mcptest.OfferingModern} {
		t.Run(mode, func(t *testing.T) {
			c, o := offering(t, mode)
			first, second, other := subscribe(t, o, "demo://1"), subscribe(t, o, "demo://1"), subscribe(t, o, "demo://2")
			first.Take() // a stream that was replaced may have missed something
			second.Take()
			awaitText(t, c, "subscriptions", "demo://1=1 demo://2=1") // the server notices a replaced stream's end a moment after its successor
			say(t, c, "touch", `{"uri":"demo://1/part"}`)
			for _, s := range []*Subscription{first, second} {
				select {
				case <-s.Changed():
				case <-time.After(20 * time.Second):
					t.Fatal("the change was not announced")
				}
				if uri, n := s.Take(); uri != "demo://1/part" || n != 1 {
					t.Errorf("%d changes of %s", n, uri)
				}
			}
			if uri, n := other.Take(); n != 0 {
				t.Errorf("a subscription to another address heard of %s", uri)
			}
			first.Close()
			other.Close()
			awaitText(t, c, "subscriptions", "demo://1=1")
			second.Close()
			awaitText(t, c, "subscriptions", "")
		})
	}
}

func subscribe(t *testing.T, o Offers, uri string) *Subscription {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := o.Subscribe(ctx, uri)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// awaitText calls a fake's tool until its text is want.
func awaitText(t *testing.T, c Client, tool, want string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		got := say(t, c, tool, `{}`)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s says %q, want %q", tool, got, want)
		}
	}
}

// TestReadsAreCancelled: over stdio and SSE the server is told of a read that was given up.
func TestReadsAreCancelled(t *testing.T) {
	for name, c := range map[string]Client{
		"stdio": dial(t, mcptest.Offering), "sse": overSSE(t, &mcptest.SSE{Mode: mcptest.Offering}, Config{}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			c.OnChange(cancel)
			_, err := c.(Offers).Get(ctx, ReadResource("demo://never"))
			if e := As(err); err == nil || e.Kind != Interrupted {
				t.Errorf("error = %v", err)
			}
			for deadline := time.Now().Add(20 * time.Second); !strings.Contains(say(t, c, "heard", `{}`), "notifications/cancelled"); {
				if time.Now().After(deadline) {
					t.Fatal("the server was not told")
				}
			}
		})
	}
}

// TestProbeAsks: a probe sends ping, or server/discover in revisions without ping, where mcp-go's Ping sends nothing.
func TestProbeAsks(t *testing.T) {
	for mode, want := range map[string]string{mcptest.Offering: "ping", mcptest.OfferingModern: "server/discover"} {
		c := dial(t, mode)
		before := strings.Count(say(t, c, "heard", `{}`), want)
		if err := c.Probe(t.Context()); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if after := strings.Count(say(t, c, "heard", `{}`), want); after != before+1 {
			t.Errorf("%s: the server was asked for %s %d times", mode, want, after-before)
		}
	}
}

// TestProbe: a server that answers, even with an error, is alive; a silent one is not.
func TestProbe(t *testing.T) {
	for mode, alive := range map[string]bool{mcptest.Good: true, mcptest.Offering: true, mcptest.Modern: true, mcptest.UnreadStdin: false} {
		t.Run(mode, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if !alive {
				ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
			}
			defer cancel()
			if err := dial(t, mode).Probe(ctx); (err == nil) != alive {
				t.Errorf("probe: %v", err)
			}
		})
	}
}
