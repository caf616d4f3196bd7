package catalog

import (
	"encoding/json"
	"runtime"
	"sync"
	"weak"
)

// Interner shares tools of the same definition between catalogs: a thousand users of a server have a thousand connections, each with a
// list of its own, and one set of tools. Tools that no catalog holds are dropped. It is safe for concurrent use.
type Interner struct {
	mu    sync.Mutex
	tools map[string]weak.Pointer[Tool] // guarded by mu; by Tool.Hash
}

// NewInterner returns an empty Interner.
func NewInterner() *Interner { return &Interner{tools: make(map[string]weak.Pointer[Tool])} }

// read parses a definition, or returns the tool that has it already.
func (k *Interner) read(raw json.RawMessage) (*Tool, error) {
	t, err := parse(raw)
	if err != nil || k == nil {
		return t, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if other := k.tools[t.Hash].Value(); other != nil && other.Raw == t.Raw {
		return other, nil
	}
	k.tools[t.Hash] = weak.Make(t)
	runtime.AddCleanup(t, k.forget, t.Hash)
	return t, nil
}

// forget drops a tool that is gone, unless there is another one of that definition by now.
func (k *Interner) forget(hash string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, ok := k.tools[hash]; ok && p.Value() == nil {
		delete(k.tools, hash)
	}
}
