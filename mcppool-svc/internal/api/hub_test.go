package api

import (
	"fmt"
	"testing"
)

func woken(w *watcher) bool {
	select {
	case <-w.wake:
		return true
	default:
		return false
	}
}

func watch(t *testing.T, h *hub, user string) *watcher {
	t.Helper()
	w, err := h.Watch(user)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestWatchersHearTheirOwn: a watcher is woken by changes that concern its user, once for several changes.
func TestWatchersHearTheirOwn(t *testing.T) {
	h := newHub()
	ann, bob := watch(t, h, "ann"), watch(t, h, "bob")
	for range 3 {
		h.Touch("a", "ann")
	}
	if !woken(ann) || woken(ann) || woken(bob) {
		t.Error("ann must be woken once, bob not at all")
	}
	if changed := ann.Take(); !changed("a") || changed("b") {
		t.Error("a changed, and b did not")
	}
	if ann.Take()("a") {
		t.Error("a change that was taken must not be told again")
	}
	h.Touch("b", "") // of all users
	h.Touch("", "bob")
	if !woken(ann) || !woken(bob) || ann.Take()("a") || !bob.Take()("a") {
		t.Error("b changed for ann, everything for bob")
	}
	bob.Close()
	if h.Touch("b", ""); woken(bob) {
		t.Error("a closed watcher must not be woken")
	}
}

// TestWatchersAreBounded: after too many names a watcher tells that each one changed.
func TestWatchersAreBounded(t *testing.T) {
	h := newHub()
	w := watch(t, h, "ann")
	for i := range 2 * maxChanged {
		h.Touch(fmt.Sprint(i), "ann")
	}
	if len(w.changed) > maxChanged+1 || !w.Take()("something else") {
		t.Errorf("%d names are kept", len(w.changed))
	}
}
