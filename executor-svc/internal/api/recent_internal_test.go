package api

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An answer is remembered for its time, from when it was given.
func TestRecentAnswersAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recent[string]
		r.put("a", "first", time.Minute, 10)
		<-time.After(40 * time.Second)
		r.put("a", "second", time.Minute, 10)
		if got, ok := r.get("a", time.Minute); !ok || got != "first" {
			t.Errorf("after 40 s: %q, %v", got, ok)
		}
		<-time.After(20 * time.Second)
		if got, ok := r.get("a", time.Minute); ok {
			t.Errorf("after a minute: %q", got)
		}
		r.put("a", "third", time.Minute, 10)
		if got, ok := r.get("a", time.Minute); !ok || got != "third" {
			t.Errorf("given anew: %q, %v", got, ok)
		}
		if len(r.order) != 1 || r.bytes != 1 {
			t.Errorf("%d entries of %d bytes are kept", len(r.order), r.bytes)
		}
	})
}

// The oldest make way, by number and by bytes.
func TestRecentAnswersAreBounded(t *testing.T) {
	var r recent[int]
	for i := range 15 {
		r.put(fmt.Sprintf("%02d", i), i, time.Hour, 10)
	}
	_, fourth := r.get("04", time.Hour)
	if five, ok := r.get("05", time.Hour); fourth || !ok || five != 5 || len(r.byKey) != 10 || r.bytes != 20 {
		t.Errorf("04: %v, 05: %v, %d entries of %d bytes", fourth, ok, len(r.byKey), r.bytes)
	}
	for i := range 5 {
		r.put(fmt.Sprint(i)+strings.Repeat("x", mostRecentBytes/4), i, time.Hour, 10)
	}
	if len(r.byKey) != 3 || len(r.order) != 3 || r.bytes > mostRecentBytes {
		t.Errorf("%d entries of %d bytes", len(r.byKey), r.bytes)
	}
	r.put(strings.Repeat("x", mostRecentBytes+1), 0, time.Hour, 10)
	if len(r.byKey) != 3 {
		t.Error("an answer that is larger than all the room")
	}
}
