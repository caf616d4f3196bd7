package identity

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"go.yaml.in/yaml/v3"

	"pawl.dev/services/privatefile"
)

const (
	fileVersion = 1
	fileHeader  = "# API keys, hashed. Change them with `pawl keys`; running services notice changes.\n"
)

// keysDoc is the content of the file. Unknown fields are refused, because a misspelt one would have no effect.
type keysDoc struct {
	Version int   `yaml:"version"`
	Keys    []Key `yaml:"keys"`
}

// readKeys reads the file. A missing file holds no keys.
func (k *KeyFile) readKeys() ([]Key, fs.FileInfo, error) {
	raw, info, err := k.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	keys, err := parseKeys(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("key file %s: %w", k.path, err)
	}
	return keys, info, nil
}

func parseKeys(raw []byte) ([]Key, error) {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	var doc keysDoc
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("it is empty; it needs at least `version: %d`", fileVersion)
		}
		return nil, err
	}
	if doc.Version != fileVersion {
		return nil, fmt.Errorf("field version is %d; this program reads version %d", doc.Version, fileVersion)
	}
	lines := keyLines(raw)
	first := map[string]int{}
	for i, k := range doc.Keys {
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("line %d: keys[%d]: %w", lines[i], i, err)
		}
		if j, twice := first[k.ID]; twice {
			return nil, fmt.Errorf("line %d: keys[%d]: field id: %q is also the id of keys[%d]", lines[i], i, k.ID, j)
		}
		first[k.ID] = i
	}
	return doc.Keys, nil
}

// keyLines returns the line of each key in a text that decodes to a keysDoc.
func keyLines(raw []byte) map[int]int {
	var doc struct {
		Keys []yaml.Node `yaml:"keys"`
	}
	lines := map[int]int{}
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return lines
	}
	for i, n := range doc.Keys {
		lines[i] = n.Line
	}
	return lines
}

// writeKeys replaces the file in one step: a concurrent reader sees the old version or the new one. It writes nothing that would not be read as
// it is now: of some texts with control characters, the YAML encoder makes a document that its decoder refuses.
func writeKeys(path string, keys []Key) error {
	body, err := yaml.Marshal(keysDoc{Version: fileVersion, Keys: keys})
	if err != nil {
		return fmt.Errorf("write the key file: %w", err)
	}
	read, err := parseKeys(body)
	if again, _ := yaml.Marshal(keysDoc{Version: fileVersion, Keys: read}); err != nil || !bytes.Equal(body, again) {
		return errors.New("a text of the key has characters that the key file cannot hold, such as a tab before a line break; leave them out")
	}
	return privatefile.Write(path, func(w io.Writer) error {
		_, err := w.Write(append([]byte(fileHeader), body...))
		return err
	})
}
