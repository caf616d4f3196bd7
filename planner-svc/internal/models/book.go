// Package models holds the language models that the operator lists and those that users name as PROVIDER:MODEL, with the address, credentials and
// limits of each. It knows nothing of tasks and the providers' protocols.
package models

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/similar"

	"pawl.dev/planner-svc/internal/llm"
)

const (
	// maxAdHoc bounds the models that users name as PROVIDER:MODEL.
	maxAdHoc = 100
	// maxFile and maxModels bound a file of models; maxFile also bounds a key file.
	maxFile, maxModels = 1 << 20, 200
	// maxRequest bounds a whole request, in bytes.
	maxRequest = 16 << 20
)

// Book holds the models that a file lists or that are named as PROVIDER:MODEL. It is safe for concurrent use.
type Book struct {
	// MaxPerUser bounds the concurrent requests of one user, including those that wait for a model's slot; 0: any number. The local user is not limited.
	// Set it before the book is used.
	MaxPerUser int

	file   string // the file that lists the models; "" if there is none
	getenv func(string) string
	web    *http.Client
	record func(ctx context.Context, info *llm.Info, reply *llm.Reply, began time.Time, err error)

	list []*llm.Client // the operator's, the default of Generate first

	mu    sync.Mutex
	adHoc map[string]*llm.Client // guarded by mu; the models that users named as PROVIDER:MODEL, by that name
	busy  map[string]int         // guarded by mu; the running requests, by user
}

// Open reads a file of models, in YAML or JSON; without a path, users can name models as PROVIDER:MODEL. It refuses unknown keys, and models whose
// name is in taken. getenv returns environment variables.
func Open(path string, taken []string, getenv func(string) string) (*Book, error) {
	b := &Book{file: path, getenv: getenv, web: llm.NewHTTPClient(), record: newRecorder(), adHoc: make(map[string]*llm.Client), busy: make(map[string]int)}
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
		return fmt.Errorf("the name %q is used twice", e.Name)
	}
	b.list = append(b.list, m)
	return nil
}

// setFallback connects a model with its fallback, once all models are added.
func (b *Book) setFallback(e *entry) error {
	if e.Fallback == "" {
		return nil
	}
	m, next := b.find(e.Name), b.find(e.Fallback)
	if next == nil {
		return fmt.Errorf("`fallback`: there is no model %q%s", e.Fallback, b.nearest(e.Fallback))
	}
	for at := next; at != nil; at = at.Fallback {
		if at == m {
			return fmt.Errorf("`fallback`: %q leads back to %q", e.Fallback, e.Name)
		}
	}
	m.Fallback = next
	return nil
}

func readFile(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return raw, err
}

// Close closes idle connections. Call it when no request is running.
func (b *Book) Close() { b.web.CloseIdleConnections() }

// List returns the operator's models, the default of Generate first.
func (b *Book) List() []*llm.Client { return b.list }

// Add adds a model named PROVIDER:MODEL to the operator's models, unless one of them has that name. Call it before the book is used.
func (b *Book) Add(name string) error {
	if b.find(name) != nil {
		return nil
	}
	m, err := b.providerModel(name)
	if err == nil {
		b.list = append(b.list, m)
	}
	return err
}

// Find returns the model of that name. Without a file of models, PROVIDER:MODEL names any model of a provider. With a file, users may name only
// the operator's models.
func (b *Book) Find(name string) (*llm.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := cmp.Or(b.find(name), b.adHoc[name])
	switch {
	case m != nil:
		return m, nil
	case b.file != "":
		return nil, modelError("there is no model %.100q%s; an operator lists models in the file of --models", name, b.nearest(name))
	case len(b.adHoc) >= maxAdHoc:
		return nil, modelError("the planner already has %d models named as PROVIDER:MODEL; restart it, or list the models in a file and start it with --models FILE", maxAdHoc)
	}
	m, err := b.providerModel(name)
	if err == nil {
		b.adHoc[name] = m
	}
	return m, err
}

const howToName = "name one as openai:MODEL, anthropic:MODEL or ollama:MODEL (docs/models.md), or give the planner a file of models as --models FILE or PAWL_MODELS"

// providerModel makes a model that is named as PROVIDER:MODEL.
func (b *Book) providerModel(name string) (*llm.Client, error) {
	e, err := providerEntry(name, b.getenv)
	if err == nil && e == nil {
		return nil, modelError("there is no model %.100q; %s", name, howToName)
	}
	var m *llm.Client
	if err == nil {
		m, err = b.model(e)
	}
	if err != nil {
		return nil, modelError("the model %.100q cannot be used: %w", name, err)
	}
	return m, nil
}

// Choose returns the model of that name. Without a name, it returns the first model that matches a hint, earlier hints first, else the
// default. A hint matches if it is a part of the model's configured name or of the provider's name for the model.
func (b *Book) Choose(name string, hints []string) (*llm.Client, error) {
	if name != "" {
		return b.Find(name)
	}
	if len(b.list) == 0 {
		return nil, modelError("no language model is configured; %s", howToName)
	}
	for _, hint := range hints {
		hint = strings.ToLower(strings.TrimSpace(hint))
		for _, m := range b.list {
			if hint != "" && strings.Contains(strings.ToLower(m.Info().Name+"\n"+m.Info().ProviderModel), hint) {
				return m, nil
			}
		}
	}
	return b.list[0], nil
}

// nearest returns the end of an error message: the models with names similar to a wrong name, or all models.
func (b *Book) nearest(wrong string) string {
	names := make([]string, 0, len(b.list))
	for _, m := range b.list {
		names = append(names, m.Info().Name)
	}
	if near := similar.Names(wrong, names); len(near) > 0 {
		return fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return "; the configured models are " + strings.Join(names, ", ")
}

// modelError returns the error for a model that does not exist or that is not configured, with the class that an unknown model of a provider has.
func modelError(format string, args ...any) error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, format, args...).With("model_error", string(llm.NotFound))
}

// find returns the operator's model of that name, or nil.
func (b *Book) find(name string) *llm.Client {
	if i := slices.IndexFunc(b.list, func(m *llm.Client) bool { return m.Info().Name == name }); i >= 0 {
		return b.list[i]
	}
	return nil
}

// admit counts a request of the caller until leave is called. It refuses requests that are too large or too many.
func (b *Book) admit(ctx context.Context, r *llm.Request) (leave func(), err error) {
	if size := proto.Size(&plannerv1.GenerateRequest{System: r.System, Messages: r.Messages, Tools: r.Tools}); size > maxRequest {
		return nil, errs.TooLarge(int64(size), maxRequest)
	}
	caller, _ := identity.FromContext(ctx) // a call by the planner itself has no user
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.MaxPerUser > 0 && b.busy[caller.Sub] >= b.MaxPerUser && caller.Sub != identity.LocalSub {
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"you have %d requests to models running; wait until one has ended, or ask an operator to raise --max-model-requests", b.MaxPerUser)
	}
	b.busy[caller.Sub]++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.busy[caller.Sub]--; b.busy[caller.Sub] == 0 {
			delete(b.busy, caller.Sub)
		}
	}, nil
}
