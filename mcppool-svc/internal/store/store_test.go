package store

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The store in memory and the one in a file behave alike until Close.
func TestContract(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "file": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(dir, "a", "b")
			if err != nil {
				t.Fatal(err)
			}
			err = s.Apply(Change{"a", "x", []byte("1")}, Change{"a", "y", []byte("2")}, Change{"b", "x", []byte("3")}, Change{"a", "y", nil})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.Get("a", "x"); string(got) != "1" || err != nil {
				t.Errorf("Get = %q, %v", got, err)
			}
			if got, err := s.Get("a", "y"); got != nil || err != nil {
				t.Errorf("Get of what was deleted = %q, %v", got, err)
			}
			if diff := cmp.Diff([]string{"x=1"}, all(t, s, "a")); diff != "" {
				t.Error(diff)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func all(t *testing.T, s Store, bucket string) []string {
	t.Helper()
	var list []string
	err := s.Load(bucket, func(key string, value []byte) error {
		list = append(list, key+"="+string(value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

func TestFileOutlivesTheProcessAndHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(Change{"a", "x", []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "a"); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("error = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(dir, "a", "new")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if diff := cmp.Diff([]string{"x=1"}, all(t, s, "a")); diff != "" || len(all(t, s, "new")) != 0 {
		t.Error(diff)
	}
}
