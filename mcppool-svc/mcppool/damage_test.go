package mcppool

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/store"
)

// A damaged store is reported with its path and what to do, whatever is damaged in it.
func TestDamagedStore(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"a value":       func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`"sealed":`), []byte(`"sealed"9`)) },
		"no bbolt file": func(b []byte) []byte { return bytes.Repeat([]byte("x"), len(b)) },
		"a page": func(b []byte) []byte {
			copy(b[2*os.Getpagesize():], bytes.Repeat([]byte{0xff}, len(b)-2*os.Getpagesize()))
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, Config{DataDir: dir})
			create(t, s.as("op"), &mcppoolv1.McpServer{Id: "web", Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "http://127.0.0.1:1/mcp"}}})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, store.FileName)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(content), 0o600); err != nil {
				t.Fatal(err)
			}
			broken, err := New(t.Context(), Config{DataDir: dir}, Deps{})
			if err == nil {
				_ = broken.Close()
				t.Fatal("a damaged store was opened")
			}
			for _, want := range []string{path, "is damaged", "backup"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
		})
	}
}
