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

	"pawl.dev/mcppool-svc/internal/process"
	"pawl.dev/services/privatefile"
)

const (
	// keySize is the size of an AES-256 key.
	keySize = 32
	// KeyFile is the name of the key's file in the data folder, used if no other key is configured.
	KeyFile = "mcp-logins.key"
)

// OpenKeys returns the keys for NewBox. The first is the one that ref names (env:NAME or file:PATH), else the key in the data folder, which
// OpenKeys creates if it does not exist. With ref, a key in the data folder is the second, so that values from before ref was set can be read.
// Without ref and data folder OpenKeys returns a new key.
func OpenKeys(ref, dataDir string, environ []string) ([][]byte, error) {
	kind, where, _ := strings.Cut(ref, ":")
	var key []byte
	var err error
	switch {
	case ref == "" && dataDir == "":
		return [][]byte{newKey()}, nil
	case ref == "":
		key, err = openKeyFile(filepath.Join(dataDir, KeyFile), true)
		return [][]byte{key}, err
	case kind == "env" && where != "":
		text, ok := process.Getenv(environ, where)
		if !ok {
			return nil, fmt.Errorf("--token-key refers to the environment variable %s, which is not set", where)
		}
		key, err = parseKeyText(text, "the environment variable "+where)
	case kind == "file" && where != "":
		var text string
		if text, err = readKeyFile(where); err != nil {
			return nil, fmt.Errorf("reading --token-key: %w", err)
		}
		key, err = parseKeyText(text, where)
	default:
		err = errors.New("--token-key is neither env:NAME nor file:PATH")
	}
	if err != nil || dataDir == "" {
		return [][]byte{key}, err
	}
	older, err := openKeyFile(filepath.Join(dataDir, KeyFile), false)
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

// openKeyFile reads the key from the pool's own file. If create is set, it creates a missing file. Other users must not be able to read it.
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
		return nil, fmt.Errorf("%s, the encryption key of the MCP pool, can be read by others (mode %o); run chmod 600 on it", path, info.Mode().Perm())
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
