package seal

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const keyFile = "test.key"

func source(ref, dir string, environ []string) Source {
	s := Source{Ref: ref, Flag: "--token-key", Getenv: func(name string) (string, bool) {
		for _, e := range environ {
			if value, ok := strings.CutPrefix(e, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}}
	if dir != "" {
		s.File = filepath.Join(dir, keyFile)
	}
	return s
}

// openKey returns the first key, with which values are encrypted.
func openKey(ref, dir string, environ []string) ([]byte, error) {
	keys, err := OpenKeys(source(ref, dir, environ))
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

func TestOpenKeys(t *testing.T) {
	dir := t.TempDir()
	first, err := openKey("", dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, keyFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
	if again, err := openKey("", dir, nil); err != nil || !bytes.Equal(first, again) || len(first) != keySize {
		t.Errorf("another key at the next start: %v", err)
	}
	a, _ := openKey("", "", nil)
	if b, _ := openKey("", "", nil); bytes.Equal(a, b) {
		t.Error("two pools in memory have the same key")
	}
	text := base64.StdEncoding.EncodeToString(first)
	other := filepath.Join(dir, "other.key")
	if err := os.WriteFile(other, []byte(text+"\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{"env:KEY", "file:" + other} {
		if got, err := openKey(where, dir, []string{"KEY=" + text}); err != nil || !bytes.Equal(got, first) {
			t.Errorf("%s: %v", where, err)
		}
	}
	for where, want := range map[string]string{
		"env:NONE": "not set", "file:" + filepath.Join(dir, "none"): "no such file", "vault:x": "neither env:NAME nor file:PATH",
		"env:": "neither", "env:SHORT": "32 bytes in base64", text: "neither",
	} {
		if _, err := openKey(where, dir, []string{"SHORT=abc"}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", where, err)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openKey("", dir, nil); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that all can read: %v", err)
	}
}

// After --token-key was set, the key in the data folder still decrypts.
func TestOlderKey(t *testing.T) {
	dir := t.TempDir()
	ref, environ := "env:KEY", []string{"KEY=" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, keySize))}
	if keys, err := OpenKeys(source(ref, dir, environ)); err != nil || len(keys) != 1 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	older, err := openKey("", dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := OpenKeys(source(ref, dir, environ))
	if err != nil || len(keys) != 2 || !bytes.Equal(keys[0], bytes.Repeat([]byte{7}, keySize)) || !bytes.Equal(keys[1], older) {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	if err := os.WriteFile(filepath.Join(dir, keyFile), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeys(source(ref, dir, environ)); err == nil || !strings.Contains(err.Error(), "32 bytes in base64") {
		t.Errorf("a damaged older key: %v", err)
	}
}
