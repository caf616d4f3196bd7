package models

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"pawl.dev/planner-svc/internal/llm/wire"
)

// credentials makes a function that reads an entry's key and headers. They must be there now and are read again at each request, because
// files of keys change.
func (b *Book) credentials(e *entry) (func() (wire.Credentials, error), error) {
	if e.Key != "" && !isReference(e.Key) {
		// It is not repeated: it may be the key itself.
		return nil, errors.New("`key` must be a reference, env:NAME or file:PATH; a key itself does not belong into this file")
	}
	read := func() (wire.Credentials, error) {
		c := wire.Credentials{Headers: make(map[string]string, len(e.Headers))}
		var err error
		if c.Key, err = b.value("`key`", e.Key); err != nil {
			return c, err
		}
		for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
			if c.Headers[name], err = b.value("the header "+name, e.Headers[name]); err != nil {
				return c, err
			}
		}
		return c, nil
	}
	_, err := read()
	return read, err
}

func isReference(text string) bool {
	kind, name, _ := strings.Cut(text, ":")
	return (kind == "env" || kind == "file") && name != ""
}

// value returns what a text refers to, or the text itself if it is no reference.
func (b *Book) value(what, text string) (string, error) {
	kind, name, _ := strings.Cut(text, ":")
	switch {
	case !isReference(text):
		return text, nil
	case kind == "env":
		value, _ := b.getenv(name)
		if value == "" {
			return "", fmt.Errorf("%s refers to the environment variable %s, which the planner does not have; set it where the planner is started", what, name)
		}
		return value, nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(b.file), name)
	}
	raw, err := readFile(name)
	if err != nil {
		return "", fmt.Errorf("%s refers to a file that cannot be read: %w", what, err)
	}
	if value := strings.TrimSpace(string(raw)); value != "" && !strings.ContainsAny(value, "\r\n") {
		return value, nil
	}
	return "", fmt.Errorf("%s refers to the file %s, which holds no key, or more than one line", what, name)
}
