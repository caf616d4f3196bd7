package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"pawl.dev/mcppool-svc/internal/spec"
)

// maxFile bounds a configuration file.
const maxFile = 4 << 20

// Reader reads files.
type Reader struct {
	// AutoActivate is for servers that do not say it themselves.
	AutoActivate bool
	Log          *slog.Logger
}

// Entry is one server of a file.
type Entry struct {
	*spec.Server
	// Unknown are keys that have no meaning here, such as those that other clients keep beside.
	Unknown []string
}

// Read reads several files. A server of a later file replaces one of the same name in an earlier one.
func Read(paths []string, log *slog.Logger) ([]*spec.Server, error) {
	var servers []*spec.Server
	index := make(map[string]int)
	for _, path := range paths {
		read, err := Reader{AutoActivate: true, Log: log}.File(path)
		if err != nil {
			return nil, err
		}
		for _, entry := range read {
			s := entry.Server
			if i, ok := index[s.Key()]; ok {
				log.Warn("an MCP server is configured twice; the later one counts", "mcp_id", s.ID, "file", path)
				servers[i] = s
				continue
			}
			index[s.Key()] = len(servers)
			servers = append(servers, s)
		}
	}
	return servers, nil
}

// File reads one file. Relative folders in it count from its own folder.
func (r Reader) File(path string) ([]Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the MCP configuration: %w; give the path of an existing file", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading the MCP configuration: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("reading the MCP configuration: %s is larger than %d MiB", path, maxFile>>20)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("reading the MCP configuration %s: %w", path, err)
	}
	return r.Parse(data, path, filepath.Dir(abs))
}

// Parse reads one file's text. name is what messages call it; relative folders in it count from dir.
func (r Reader) Parse(data []byte, name, dir string) ([]Entry, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	stanzas, err := split(data, name, r.Log)
	if err != nil {
		return nil, err
	}
	var servers []Entry
	taken := make(map[string]string)
	for _, st := range stanzas {
		s, err := r.server(st, dir)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: MCP server %q: %w", name, st.line, st.name, err)
		}
		if other, ok := taken[s.Key()]; ok {
			return nil, fmt.Errorf("%s:%d: the MCP servers %q and %q would both have the id %q; rename one", name, st.line, other, st.name, s.ID)
		}
		taken[s.Key()] = st.name
		servers = append(servers, s)
	}
	return servers, nil
}

// stanza is one server as the file has it.
type stanza struct {
	name string
	line int
	raw  json.RawMessage
}

// split finds the stanzas.
func split(data []byte, name string, log *slog.Logger) ([]stanza, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, syntaxError(data, name, err)
	}
	if _, ok := top["mcpServers"]; !ok {
		return nil, fmt.Errorf(`%s: there is no "mcpServers" object at the top level; it should read {"mcpServers": {"name": {"command": …}}}`, name)
	}
	for key := range top {
		if key != "mcpServers" {
			log.Debug("a key of the MCP configuration is not for us", "file", name, "key", key)
		}
	}
	// Once more by tokens, for the lines and the order. The text is valid JSON by now.
	dec := json.NewDecoder(bytes.NewReader(data))
	var stanzas []stanza
	_, _ = dec.Token()
	for dec.More() {
		key, _ := dec.Token()
		if key != "mcpServers" {
			var skipped json.RawMessage
			_ = dec.Decode(&skipped)
			continue
		}
		if t, _ := dec.Token(); t != json.Delim('{') {
			return nil, fmt.Errorf(`%s:%d: "mcpServers" is not an object`, name, lineOf(data, dec.InputOffset()))
		}
		stanzas = append(stanzas, entries(dec, data, name, log)...)
		_, _ = dec.Token()
	}
	return stanzas, nil
}

// entries reads the members of the object that the decoder is in. Of a name that comes twice the last one counts (C2).
func entries(dec *json.Decoder, data []byte, name string, log *slog.Logger) []stanza {
	var list []stanza
	index := make(map[string]int)
	for dec.More() {
		t, _ := dec.Token()
		st := stanza{line: lineOf(data, dec.InputOffset())}
		st.name, _ = t.(string)
		_ = dec.Decode(&st.raw)
		if i, ok := index[st.name]; ok {
			log.Warn("an MCP server is configured twice; the later one counts", "server", st.name, "file", name)
			list[i] = st
			continue
		}
		index[st.name] = len(list)
		list = append(list, st)
	}
	return list
}

// syntaxError says where JSON is broken.
func syntaxError(data []byte, name string, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset := syntax.Offset
		if strings.HasPrefix(syntax.Error(), "unexpected end") {
			offset++ // what is missing would come after the last byte
		}
		line, column := position(data, offset)
		return fmt.Errorf("%s:%d:%d: this is not valid JSON: %w", name, line, column, err)
	case errors.As(err, &kind):
		return fmt.Errorf("%s: the top level is not a JSON object", name)
	default:
		return fmt.Errorf("%s: %w", name, err)
	}
}

// position is the line and column of a byte, both from 1. Offset counts the bytes read before the error showed.
func position(data []byte, offset int64) (line, column int) {
	before := data[:min(max(offset-1, 0), int64(len(data)))]
	line = 1 + bytes.Count(before, []byte{'\n'})
	column = len(before) - bytes.LastIndexByte(before, '\n')
	return line, column
}

func lineOf(data []byte, offset int64) int {
	line, _ := position(data, offset)
	return line
}

// digest names a configured server for ever: it changes with its text alone.
func digest(st stanza, id, owner string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s", owner, id, st.raw)
	return "config:" + hex.EncodeToString(h.Sum(nil)[:16])
}
