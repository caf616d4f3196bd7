package clitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Check compares got with testdata/<name>.golden. It makes escape sequences visible, so that the files are readable.
func Check(t testing.TB, name, got string) {
	t.Helper()
	CheckIn(t, "testdata", name, got)
}

// CheckIn is like Check, with testdata in dir, for tests that change their working folder.
func CheckIn(t testing.TB, dir, name, got string) {
	t.Helper()
	got = strings.NewReplacer("\x1b", "␛", "\r", "␍").Replace(got)
	path := filepath.Join(dir, name+".golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (UPDATE_GOLDEN=1 writes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}
