package digest_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"pawl.dev/services/digest"
)

// Equal lists have equal digests; any difference, also one of where a message ends, makes another digest.
func TestOf(t *testing.T) {
	seen := map[string]int{}
	for i, list := range [][]string{{}, {""}, {"", ""}, {"a"}, {"a", "b"}, {"b", "a"}, {"ab"}, {"a", "b", ""}} {
		var first string
		for range 2 {
			var messages []*wrapperspb.StringValue
			for _, text := range list {
				messages = append(messages, wrapperspb.String(text))
			}
			got, err := digest.Of(messages)
			if err != nil || len(got) != 64 || first != "" && got != first {
				t.Fatalf("%q: %s, then %s, %v", list, first, got, err)
			}
			first = got
		}
		if other, ok := seen[first]; ok {
			t.Errorf("list %d has the digest of list %d", i, other)
		}
		seen[first] = i
	}
	if _, err := digest.Of([]*wrapperspb.StringValue{wrapperspb.String("\xff")}); err == nil {
		t.Error("a text that is not UTF-8 has a digest")
	}
}
