package seal

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"pawl.dev/services/privatefile"
)

// keySize is the size of an AES-256 key.
const keySize = 32

// Source says where keys are.
type Source struct {
	// Ref names the key: env:NAME or file:PATH; may be empty. Flag is the flag that sets it, and Getenv finds NAME.
	Ref    string
	Flag   string
	Getenv func(name string) (string, bool)
	// File is the file of a key that is used if Ref is empty; empty: none.
	File string
}

// OpenKeys returns the keys for NewBox. The first is the one that Ref names, else the key in File, which OpenKeys creates if it does not exist.
// With Ref, the key in File is the second, so that values from before Ref was set can be read. Without Ref and File, OpenKeys returns a new key.
func OpenKeys(s Source) ([][]byte, error) {
	kind, where, _ := strings.Cut(s.Ref, ":")
	var key []byte
	var err error
	switch {
	case s.Ref == "" && s.File == "":
		return [][]byte{newKey()}, nil
	case s.Ref == "":
		key, err = openKeyFile(s.File, true)
		return [][]byte{key}, err
	case kind == "env" && where != "":
		text, ok := s.Getenv(where)
		if !ok {
			return nil, fmt.Errorf("%s refers to the environment variable %s, which is not set", s.Flag, where)
		}
		key, err = parseKeyText(text, "the environment variable "+where)
	case kind == "file" && where != "":
		var text string
		if text, err = readKeyFile(where); err != nil {
			return nil, fmt.Errorf("reading %s: %w", s.Flag, err)
		}
		key, err = parseKeyText(text, where)
	default:
		err = fmt.Errorf("%s is neither env:NAME nor file:PATH", s.Flag)
	}
	if err != nil || s.File == "" {
		return [][]byte{key}, err
	}
	older, err := openKeyFile(s.File, false)
	if errors.Is(err, fs.ErrNotExist) {
		return [][]byte{key}, nil
	}
	return [][]byte{key, older}, err
}

func newKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// openKeyFile reads the key from a file of the program. If create is set, it creates a missing file. Other users must not be able to read it.
func openKeyFile(path string, create bool) ([]byte, error) {
	text, err := readKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) && create {
		key := newKey()
		if err := writeKeyFile(path, key); err != nil {
			return nil, fmt.Errorf("writing the encryption key: %w", err)
		}
		return key, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the encryption key: %w", err)
	}
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s, an encryption key, can be read by others (mode %o); run chmod 600 on it", path, info.Mode().Perm())
	}
	return parseKeyText(text, path)
}

// readKeyFile reads a small file.
func readKeyFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	return string(text), err
}

// writeKeyFile writes a key's file atomically.
func writeKeyFile(path string, key []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return privatefile.Write(path, func(w io.Writer) error {
		_, err := io.WriteString(w, base64.StdEncoding.EncodeToString(key)+"\n")
		return err
	})
}

func parseKeyText(text, where string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("%s does not hold an encryption key: 32 bytes in base64, as `openssl rand -base64 32` makes them", where)
	}
	return key, nil
}
