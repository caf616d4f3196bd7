package models

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
)

const (
	maxFile   = 1 << 20
	maxModels = 200
)

// Open reads a file of models (JSON is YAML too); without a path users can name models as PROVIDER:MODEL. Names that are taken already are
// refused, and so are unknown keys, so that a misspelt one is not silently without effect. getenv finds the variables of providers, and those
// that the file refers to.
func Open(path string, taken []string, getenv func(string) string) (*Book, error) {
	b := newBook(path, getenv)
	if path == "" {
		return b, nil
	}
	raw, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("the file of --models: %w", err)
	}
	var f struct {
		Models []*entry `yaml:"models"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the file of --models, %s: %w", path, err)
	}
	if len(f.Models) == 0 || len(f.Models) > maxModels {
		return nil, fmt.Errorf("the file of --models, %s: `models` must list 1 to %d models, and lists %d", path, maxModels, len(f.Models))
	}
	for _, add := range []func(*entry) error{func(e *entry) error { return b.addEntry(e, taken) }, b.setFallback} {
		for i, e := range f.Models {
			if err := add(e); err != nil {
				return nil, fmt.Errorf("the file of --models, %s: models[%d] (%q): %w", path, i, e.Name, err)
			}
		}
	}
	return b, nil
}

// addEntry adds the model of an entry.
func (b *Book) addEntry(e *entry, taken []string) error {
	m, err := b.model(e)
	switch {
	case err != nil:
		return err
	case slices.Contains(taken, e.Name):
		return fmt.Errorf("the name %q is that of a built-in model; choose another one", e.Name)
	case b.find(e.Name) != nil:
		return fmt.Errorf("the name %q is there twice", e.Name)
	}
	b.list = append(b.list, m)
	return nil
}

// setFallback connects a model with its fallback, once all models are there.
func (b *Book) setFallback(e *entry) error {
	if e.Fallback == "" {
		return nil
	}
	m, next := b.find(e.Name), b.find(e.Fallback)
	if next == nil {
		return fmt.Errorf("`fallback`: there is no model %q%s", e.Fallback, b.nearest(e.Fallback))
	}
	for at := next; at != nil; at = at.fallback {
		if at == m {
			return fmt.Errorf("`fallback`: %q leads back to %q", e.Fallback, e.Name)
		}
	}
	m.fallback = next
	return nil
}

func readFile(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return raw, err
}
