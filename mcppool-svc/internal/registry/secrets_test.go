package registry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Secrets are references that are resolved when a connection is made.
func TestExpand(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := write("key", "s3cret\r\n")
	for _, tt := range []struct {
		name, value, want, problem string
	}{
		{"plain", "x$y{z}", "x$y{z}", ""},
		{"environment", "Bearer ${env:TOKEN}", "Bearer abc", ""},
		{"file", "Bearer ${file:" + key + "}", "Bearer s3cret", ""},
		{"both, not expanded twice", "${env:ODD}${file:" + write("odd", "${env:TOKEN}") + "}", "${file:/x}${env:TOKEN}", ""},
		{"no variable", "${env:NOPE}", "", "NOPE, which the pool does not have"},
		{"no file", "${file:" + filepath.Join(dir, "nope") + "}", "", "nope, which the pool cannot read: no such file"},
		{"a folder", "${file:" + dir + "}", "", "cannot read"},
		{"relative", "${file:key}", "", "give its absolute path"},
		{"large", "${file:" + write("large", strings.Repeat("x", maxSecret+1)) + "}", "", "more than 64 KiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := (&Server{ID: "s", ByOperator: true}).Expand(map[string]string{"Authorization": tt.value}, func(name string) (string, bool) {
				value, ok := map[string]string{"TOKEN": "abc", "ODD": "${file:/x}"}[name]
				return value, ok
			})
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) || !strings.Contains(err.Error(), "Authorization") {
					t.Errorf("error %v, want %q", err, tt.problem)
				}
				return
			}
			if err != nil || got["Authorization"] != tt.want {
				t.Errorf("got %q, %v; want %q", got["Authorization"], err, tt.want)
			}
		})
	}
}
