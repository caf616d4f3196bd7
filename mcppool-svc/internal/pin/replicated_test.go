package pin

import (
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/store"
)

// TestApprovalsOfBefore: in files of before, approvals were among what was seen first; they count as approvals from now on.
func TestApprovalsOfBefore(t *testing.T) {
	st, err := store.Open("", Buckets()...)
	if err != nil {
		t.Fatal(err)
	}
	err = st.Apply(
		store.Change{Bucket: bucketSeen, Key: "o\x00approved", Value: []byte(`{"v":1,"hash":"h1","by":"op"}`)},
		store.Change{Bucket: bucketSeen, Key: "o\x00seen", Value: []byte(`{"v":1,"hash":"h2"}`)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b, err := Open(st, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if h := b.server("o").hashes; h["approved"] != "h1" || h["seen"] != "h2" {
			t.Errorf("known: %v", h)
		}
	}
	if v, err := st.Get(bucketApproved, "o\x00approved"); v == nil || err != nil {
		t.Errorf("the approval: %s, %v", v, err)
	}
	if v, err := st.Get(bucketApproved, "o\x00seen"); v != nil || err != nil {
		t.Errorf("nobody approved %s, %v", v, err)
	}
}

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
		if err := b.Applied([]replica.Place{{Bucket: bucket, Key: key}}, func(o string) bool { return o == "o" }); err != nil {
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
