package pin

import (
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/store"
)

// TestApplied: entries of another replica apply at once; an approval outranks a definition that was only seen.
func TestApplied(t *testing.T) {
	st, err := store.Open("", Buckets()...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(st, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	write := func(bucket, name, value string) {
		t.Helper()
		key := "o\x00" + name
		if err := st.Apply(store.Change{Bucket: bucket, Key: key, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
		if err := b.ApplyRemote([]replica.Place{{Bucket: bucket, Key: key}}); err != nil {
			t.Fatal(err)
		}
	}
	write(bucketApproved, "tool", `{"v":1,"hash":"approved","by":"op"}`)
	write(bucketSeen, "tool", `{"v":1,"hash":"seen"}`)
	if got := b.server("o").valid["tool"]; got != "approved" {
		t.Errorf("the valid definition is %q", got)
	}
	write(bucketSeen, "", `{"v":1,"time":"2026-01-01T00:00:00Z"}`) // the record of a first review by an earlier version
	if n := len(b.server("o").pins); n != 1 {
		t.Errorf("%d tools are known", n)
	}
	if b, err = Open(st, time.Now); err != nil || len(b.server("o").pins) != 1 {
		t.Errorf("after a restart %v, %v", b, err)
	}
}
