package registry

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRootsAndSSE(t *testing.T) {
	dir := t.TempDir()
	st := stanza{name: "a", raw: json.RawMessage(`{"type":"SSE","url":"http://a/sse","roots":["/srv/a b","sub","file:///data"]}`)}
	s, err := Reader{Log: slog.New(slog.DiscardHandler)}.server(st, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"file:///srv/a%20b", "file://" + filepath.ToSlash(filepath.Join(dir, "sub")), "file:///data"}
	if diff := cmp.Diff(want, s.Roots); diff != "" || !s.HTTP.SSE {
		t.Errorf("sse %t, roots (-want +got):\n%s", s.HTTP.SSE, diff)
	}
}
