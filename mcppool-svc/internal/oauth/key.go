package oauth

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

	"pawl.dev/mcppool-svc/internal/process"
)

const (
	// keySize is that of AES-256.
	keySize = 32
	// KeyFile is the key's file in the data folder, where no other key is named.
	KeyFile = "mcp-logins.key"
)

// OpenKey returns the key that logins are kept under: the one that ref names (env:NAME or file:PATH), else the one in the
// data folder, which is created if it does not exist. Without a folder nothing is kept, and the key is a new one.
func OpenKey(ref, dataDir string, environ []string) ([]byte, error) {
	kind, where, _ := strings.Cut(ref, ":")
	switch {
	case ref == "" && dataDir == "":
		return newKey(), nil
	case ref == "":
		return openKeyFile(filepath.Join(dataDir, KeyFile))
	case kind == "env" && where != "":
		text, ok := process.Getenv(environ, where)
		if !ok {
			return nil, fmt.Errorf("--token-key refers to the environment variable %s, which is not set", where)
		}
		return parseKeyText(text, "the environment variable "+where)
	case kind == "file" && where != "":
		text, err := readKeyFile(where)
		if err != nil {
			return nil, fmt.Errorf("reading --token-key: %w", err)
		}
		return parseKeyText(text, where)
	default:
		return nil, errors.New("--token-key is neither env:NAME nor file:PATH")
	}
}

func newKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// openKeyFile reads the key of our own file, which other users must not be able to read, or makes one.
func openKeyFile(path string) ([]byte, error) {
	text, err := readKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key := newKey()
		if err := writeKeyFile(path, key); err != nil {
			return nil, fmt.Errorf("writing the key of the stored logins: %w", err)
		}
		return key, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key of the stored logins: %w", err)
	}
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s, the key of the stored logins, can be read by others (mode %o); run chmod 600 on it", path, info.Mode().Perm())
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

// writeKeyFile writes the file atomically.
func writeKeyFile(path string, key []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+KeyFile+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(key) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func parseKeyText(text, where string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("%s does not hold a key for logins: 32 bytes in base64, as `openssl rand -base64 32` makes them", where)
	}
	return key, nil
}
