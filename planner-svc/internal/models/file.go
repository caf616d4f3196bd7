package models

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/anthropic"
	"pawl.dev/planner-svc/internal/llm/openai"
)

// What a file may say, and what is so where it says nothing.
const (
	maxFile     = 1 << 20
	maxModels   = 200
	stdTokens   = 4096
	mostTokens  = 1_000_000
	stdTimeout  = 5 * time.Minute
	mostTimeout = time.Hour
	stdRetries  = 2
	mostRetries = 5
	stdAtOnce   = 16
	mostAtOnce  = 1000
)

// file is what an operator writes; JSON is YAML too. Unknown keys are refused, so that a misspelt one is not silently without effect.
type file struct {
	Models []entry `yaml:"models"`
}

// entry is one model of the file.
type entry struct {
	Name        string   `yaml:"name"`
	Description string   `yaml:"description"`
	Provider    string   `yaml:"provider"`
	Model       string   `yaml:"model"`
	BaseURL     string   `yaml:"baseUrl"`
	Key         string   `yaml:"key"`
	MaxTokens   int      `yaml:"maxTokens"`
	Timeout     duration `yaml:"timeout"`
	Retries     *int     `yaml:"retries"`
	AtOnce      int      `yaml:"atOnce"`
}

// duration is seconds, or a text such as "90s".
type duration time.Duration

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	var seconds float64
	if n.Decode(&seconds) == nil {
		if seconds < 0 || seconds > mostTimeout.Seconds() {
			return fmt.Errorf("line %d: %v s is not between 0 and %v", n.Line, seconds, mostTimeout)
		}
		*d = duration(seconds * float64(time.Second))
		return nil
	}
	parsed, err := time.ParseDuration(n.Value)
	if err != nil {
		return fmt.Errorf(`line %d: %.40q is neither a number of seconds nor a duration such as "90s"`, n.Line, n.Value)
	}
	*d = duration(parsed)
	return nil
}

// Open reads a file of models. Names that are taken already are refused. getenv finds variables that keys refer to.
func Open(path string, taken []string, getenv func(string) (string, bool)) (*Book, error) {
	raw, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("the file of --models: %w", err)
	}
	var f file
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the file of --models, %s: %w", path, err)
	}
	if len(f.Models) == 0 || len(f.Models) > maxModels {
		return nil, fmt.Errorf("the file of --models, %s: `models` must list 1 to %d models, and lists %d", path, maxModels, len(f.Models))
	}
	book := newBook()
	for i, e := range f.Models {
		one, err := e.model(filepath.Dir(path), book, getenv)
		switch {
		case err != nil:
		case slices.Contains(taken, e.Name):
			err = fmt.Errorf("the name %q is that of a built-in model; choose another one", e.Name)
		case book.find(e.Name) != nil:
			err = fmt.Errorf("the name %q is there twice", e.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("the file of --models, %s: models[%d] (%q): %w", path, i, e.Name, err)
		}
		book.list = append(book.list, one)
	}
	return book, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return raw, err
}

// nameForm is what a model can be called.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$`)

// model makes the model of an entry.
func (e entry) model(folder string, book *Book, getenv func(string) (string, bool)) (*Model, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	key, err := keyOf(e.Key, folder, getenv)
	if err != nil {
		return nil, err
	}
	retries := stdRetries
	if e.Retries != nil {
		retries = *e.Retries
	}
	info := llm.Info{
		Name: e.Name, Description: e.Description, Provider: e.Provider, ProviderModel: e.Model,
		MaxTokens: orElse(e.MaxTokens, stdTokens),
	}
	if info.Description == "" {
		info.Description = e.Provider + " " + e.Model
		if u, err := url.Parse(e.BaseURL); err == nil && u.Host != "" {
			info.Description += " at " + u.Host
		}
	}
	m := &Model{
		book: book, info: info, timeout: orElse(time.Duration(e.Timeout), stdTimeout), slots: make(chan struct{}, orElse(e.AtOnce, stdAtOnce)),
	}
	switch e.Provider {
	case "openai":
		m.Model = openai.New(openai.Config{Model: e.Model, BaseURL: e.BaseURL, Key: key, Retries: retries, HTTP: book.web})
	case "anthropic":
		m.Model = anthropic.New(anthropic.Config{Model: e.Model, BaseURL: e.BaseURL, Key: key, Retries: retries, HTTP: book.web})
	}
	return m, nil
}

// check says what is wrong with an entry alone.
func (e entry) check() error {
	switch {
	case !nameForm.MatchString(e.Name):
		return errors.New("`name` must be of letters, digits and ._:/-, 100 at most")
	case e.Provider != "openai" && e.Provider != "anthropic":
		return fmt.Errorf("`provider` must be openai (and whatever is compatible, with `baseUrl`) or anthropic, not %q", e.Provider)
	case e.Model == "":
		return errors.New("`model` is missing: the provider's name of it")
	case e.Key == "" && e.BaseURL == "":
		return errors.New("`key` is missing: env:NAME or file:PATH")
	case e.MaxTokens < 0 || e.MaxTokens > mostTokens:
		return fmt.Errorf("`maxTokens` is not between 0 and %d", mostTokens)
	case e.Timeout < 0 || time.Duration(e.Timeout) > mostTimeout:
		return fmt.Errorf("`timeout` is not between 0 and %v", mostTimeout)
	case e.Retries != nil && (*e.Retries < 0 || *e.Retries > mostRetries):
		return fmt.Errorf("`retries` is not between 0 and %d", mostRetries)
	case e.AtOnce < 0 || e.AtOnce > mostAtOnce:
		return fmt.Errorf("`atOnce` is not between 0 and %d", mostAtOnce)
	}
	return checkURL(e.BaseURL)
}

func checkURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("`baseUrl` is no http or https address")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("`baseUrl` may have no user, query or fragment; a key goes into `key`, as env:NAME or file:PATH")
	}
	return nil
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// keyOf makes what finds a key. It must be there now, and is looked for again at each request: files of keys change. What a reference
// that is none says is not repeated: it may be the key itself.
func keyOf(ref, folder string, getenv func(string) (string, bool)) (func() (string, error), error) {
	kind, name, _ := strings.Cut(ref, ":")
	var find func() (string, error)
	switch {
	case ref == "":
		find = func() (string, error) { return "", nil }
	case kind == "env" && name != "":
		find = func() (string, error) {
			value, _ := getenv(name)
			if value == "" {
				return "", fmt.Errorf("`key` refers to the environment variable %s, which the planner does not have; set it where the planner is started", name)
			}
			return value, nil
		}
	case kind == "file" && name != "":
		if !filepath.IsAbs(name) {
			name = filepath.Join(folder, name)
		}
		find = func() (string, error) {
			raw, err := readFile(name)
			if err != nil {
				return "", fmt.Errorf("`key` refers to a file that cannot be read: %w", err)
			}
			if key := strings.TrimSpace(string(raw)); key != "" && !strings.ContainsAny(key, "\r\n") {
				return key, nil
			}
			return "", fmt.Errorf("`key` refers to the file %s, which holds no key, or more than one line", name)
		}
	default:
		return nil, errors.New("`key` must be a reference, env:NAME or file:PATH; a key itself does not belong into this file")
	}
	_, err := find()
	return find, err
}
