package sealed

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/mcppool-svc/internal/store"
	"pawl.dev/services/seal"
)

const secret = "hunter2-hunter2"

func boxOf(t *testing.T, keys ...byte) *seal.Box {
	t.Helper()
	var all [][]byte
	for _, k := range keys {
		all = append(all, bytes.Repeat([]byte{k}, 32))
	}
	b, err := seal.NewBox(all...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func openFile(t *testing.T, dir string) store.Store {
	t.Helper()
	file, err := store.Open(dir, "sealed", "open")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // some tests close it before
	return file
}

// sealing opens the store of a folder with the keys.
func sealing(t *testing.T, dir string, keys ...byte) store.Store {
	t.Helper()
	s, err := Store(openFile(t, dir), boxOf(t, keys...), "sealed")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func apply(t *testing.T, s store.Store, changes ...store.Change) {
	t.Helper()
	if err := s.Apply(changes...); err != nil {
		t.Fatal(err)
	}
}

// wantValues checks the values of a bucket by Load and by Get.
func wantValues(t *testing.T, s store.Store, bucket string, want map[string]string) {
	t.Helper()
	loaded := make(map[string]string)
	if err := s.Load(bucket, func(key string, value []byte) error { loaded[key] = string(value); return nil }); err != nil || !maps.Equal(loaded, want) {
		t.Errorf("%s: %v, %v", bucket, loaded, err)
	}
	for key := range want {
		if got, err := s.Get(bucket, key); err != nil || string(got) != want[key] {
			t.Errorf("%s/%s: %q, %v", bucket, key, got, err)
		}
	}
}

// closed closes the store and returns the bytes of its file.
func closed(t *testing.T, s store.Store, dir string) []byte {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestValuesAreEncrypted(t *testing.T) {
	dir := t.TempDir()
	s := sealing(t, dir, 1)
	apply(t, s, store.Change{Bucket: "sealed", Key: "a", Value: []byte(secret)}, store.Change{Bucket: "sealed", Key: "b", Value: []byte("x")},
		store.Change{Bucket: "open", Key: "a", Value: []byte("visible")})
	apply(t, s, store.Change{Bucket: "sealed", Key: "b"})
	if got, err := s.Get("sealed", "b"); got != nil || err != nil {
		t.Errorf("deleted: %q, %v", got, err)
	}
	if text := closed(t, s, dir); bytes.Contains(text, []byte(secret)) || !bytes.Contains(text, []byte("visible")) {
		t.Error("the file shows the secret, or not the value of the other bucket")
	}
	s = sealing(t, dir, 1)
	wantValues(t, s, "sealed", map[string]string{"a": secret})
	wantValues(t, s, "open", map[string]string{"a": "visible"})
}

// Values of an earlier version are encrypted when the store is opened, and nothing of their text is left in the file.
func TestPlainValuesAreEncryptedAtStart(t *testing.T) {
	dir := t.TempDir()
	file := openFile(t, dir)
	want := make(map[string]string)
	for _, key := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		want[key] = `{"v":1,"header":"` + secret + strings.Repeat(key, 300) + `"}`
		apply(t, file, store.Change{Bucket: "sealed", Key: key, Value: []byte(want[key])})
	}
	if !bytes.Contains(closed(t, file, dir), []byte(secret)) {
		t.Fatal("the values are not in plain text")
	}
	s := sealing(t, dir, 1)
	wantValues(t, s, "sealed", want)
	apply(t, s, store.Change{Bucket: "sealed", Key: "new", Value: []byte("1")}) // the rewritten file is in use
	if bytes.Contains(closed(t, s, dir), []byte(secret)) {
		t.Error("the file still shows the secret")
	}
	want["new"] = "1"
	wantValues(t, sealing(t, dir, 1), "sealed", want)
}

// A key is replaced by giving the new one first. From then on the new one suffices.
func TestValuesMoveToTheFirstKey(t *testing.T) {
	dir := t.TempDir()
	s := sealing(t, dir, 1)
	apply(t, s, store.Change{Bucket: "sealed", Key: "a", Value: []byte(secret)})
	closed(t, s, dir)
	s = sealing(t, dir, 2, 1)
	wantValues(t, s, "sealed", map[string]string{"a": secret})
	closed(t, s, dir)
	wantValues(t, sealing(t, dir, 2), "sealed", map[string]string{"a": secret})
}

// A missing key, a value that was moved to another place, and a damaged value are errors; the values stay as they are.
func TestValuesThatCannotBeDecrypted(t *testing.T) {
	for name, damage := range map[string]func(sealed []byte) (key string, value []byte, with byte){
		"another key": func(v []byte) (string, []byte, byte) { return "a", v, 2 },
		"moved":       func(v []byte) (string, []byte, byte) { return "b", v, 1 },
		"damaged": func(v []byte) (string, []byte, byte) {
			return "a", bytes.Replace(v, []byte(`:"`), []byte(`:"AAAA`), 1), 1
		},
	} {
		dir := t.TempDir()
		s := sealing(t, dir, 1)
		apply(t, s, store.Change{Bucket: "sealed", Key: "a", Value: []byte(secret)})
		closed(t, s, dir)
		file := openFile(t, dir)
		value, err := file.Get("sealed", "a")
		if err != nil {
			t.Fatal(err)
		}
		key, value, with := damage(value)
		apply(t, file, store.Change{Bucket: "sealed", Key: key, Value: value})
		if _, err := Store(file, boxOf(t, with), "sealed"); !errors.Is(err, seal.ErrOtherKey) || !strings.Contains(err.Error(), "--token-key") || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
		if kept, err := file.Get("sealed", key); err != nil || !bytes.Equal(kept, value) {
			t.Errorf("%s: the value was changed: %v", name, err)
		}
	}
}
