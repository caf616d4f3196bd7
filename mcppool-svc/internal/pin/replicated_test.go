package pin

import (
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/store"
)

// TestApplied: what another replica wrote counts at once, an approval before what was seen; and a server that is here is not gone.
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
		if err := b.ApplyRemote([]replica.Place{{Bucket: bucket, Key: key}}, func(o string) bool { return o == "o" }); err != nil {
			t.Fatal(err)
		}
	}
	write(bucketApproved, "tool", `{"v":1,"hash":"approved","by":"op"}`)
	write(bucketSeen, "tool", `{"v":1,"hash":"seen"}`)
	if got := b.server("o").hashes["tool"]; got != "approved" {
		t.Errorf("what counts is %q", got)
	}
	write(bucketSeen, goneName, `{"v":1,"time":"2026-01-01T00:00:00Z"}`)
	if v, err := st.Get(bucketSeen, "o\x00"+goneName); v != nil || err != nil || !b.origins()["o"].IsZero() {
		t.Errorf("it is noted as gone: %s, %v", v, err)
	}
}
