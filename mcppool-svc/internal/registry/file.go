package registry

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

	"pawl.dev/services/strictjson"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 4 << 20

// Reader reads configuration files in the `mcpServers` format.
type Reader struct {
	// AutoActivate is the default of `autoActivate`.
	AutoActivate bool
	// Only is the name or id of the one server to read; the others are ignored. Empty: all.
	Only string
	Log  *slog.Logger
}

// Entry is one server of a file.
type Entry struct {
	*Server
	// Unknown are keys that this program does not know, such as those of other clients.
	Unknown []string
}

// Read reads several files. A server in a later file replaces the one with the same id and owner in an earlier file.
func Read(paths []string, log *slog.Logger) ([]*Server, error) {
	var servers []*Server
	index := make(map[string]int)
	for _, path := range paths {
		read, err := Reader{AutoActivate: true, Log: log}.File(path)
		if err != nil {
			return nil, err
		}
		for _, entry := range read {
			s := entry.Server
			if i, ok := index[s.Key()]; ok {
				log.Warn("an MCP server is configured twice; the later configuration counts", "mcp_id", s.ID, "file", path)
				servers[i] = s
				continue
			}
			index[s.Key()] = len(servers)
			servers = append(servers, s)
		}
	}
	return servers, nil
}

// File reads one file. Relative folders in it are relative to its own folder.
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

// Parse reads the text of a file. name is the file's name in messages; relative folders are relative to dir.
func (r Reader) Parse(data []byte, name, dir string) ([]Entry, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	stanzas, err := split(data, name, r.Log)
	if err != nil {
		return nil, err
	}
	bad := &BadServers{}
	var servers []Entry
	taken := make(map[string]string)
	for _, st := range r.filter(stanzas) {
		s, err := r.server(st, dir)
		if err != nil {
			bad.reasons = append(bad.reasons, fmt.Errorf("%s:%d: MCP server %q: %w", name, st.line, st.name, err))
			continue
		}
		if first, ok := taken[s.Key()]; ok {
			bad.reasons = append(bad.reasons,
				fmt.Errorf("%s:%d: the MCP servers %q and %q would both have the id %q; rename one", name, st.line, first, st.name, s.ID))
			continue
		}
		taken[s.Key()] = st.name
		servers = append(servers, s)
		bad.Good = append(bad.Good, s.ID)
	}
	if len(bad.reasons) > 0 {
		return nil, bad
	}
	return servers, nil
}

// BadServers is the error of a file in which some servers cannot be read. No server of the file is used then.
type BadServers struct {
	Good    []string // ids of the servers that can be read
	reasons []error
}

func (b *BadServers) Error() string { return errors.Join(b.reasons...).Error() }

// Unwrap returns an error for each server that cannot be read.
func (b *BadServers) Unwrap() []error { return b.reasons }

// filter returns the stanzas to read. A stanza with the name Only has priority over one whose derived id is Only.
func (r Reader) filter(all []stanza) []stanza {
	if r.Only == "" {
		return all
	}
	var byName, byID []stanza
	for _, st := range all {
		switch r.Only {
		case st.name:
			byName = append(byName, st)
		case Slug(st.name):
			byID = append(byID, st)
		}
	}
	if len(byName) > 0 {
		return byName
	}
	return byID
}

// stanza is the text of one server in the file.
type stanza struct {
	name string
	line int
	raw  json.RawMessage
	err  error // what is wrong with its text; nil if it can be read
}

// split returns the stanzas. If a name comes twice, the second stanza has an error.
func split(data []byte, name string, log *slog.Logger) ([]stanza, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, syntaxError(data, name, err)
	}
	if _, ok := top["mcpServers"]; !ok {
		return nil, fmt.Errorf(`%s: there is no "mcpServers" object at the top level; it should read {"mcpServers": {"name": {"command": …}}}`, name)
	}
	var list []stanza
	first, lines := 0, make(map[string]int) // lines of "mcpServers" and of each server
	for key, servers := range strictjson.Members(data) {
		if string(key) != "mcpServers" {
			log.Debug("ignoring an unknown key of the MCP configuration", "file", name, "key", string(key))
			continue
		}
		line := lineOf(data, servers, 0)
		switch {
		case first > 0:
			return nil, fmt.Errorf(`%s:%d: "mcpServers" is there twice, first in line %d; put the servers into one`, name, line, first)
		case strictjson.Kind(servers) != "object":
			return nil, fmt.Errorf(`%s:%d: "mcpServers" is not an object`, name, line)
		}
		first = line
		for key, raw := range strictjson.Members(servers) {
			st := stanza{name: string(key), line: lineOf(data, raw, 0), raw: json.RawMessage(raw)}
			if line, twice := lines[st.name]; twice {
				st.err = fmt.Errorf("it is there twice, first in line %d; rename or remove one", line)
			} else {
				lines[st.name] = st.line
				st.err = checkAmbiguity(data, raw)
			}
			list = append(list, st)
		}
	}
	return list, nil
}

// checkAmbiguity returns an error if the text of a stanza is ambiguous, for example if a key comes twice.
func checkAmbiguity(data, raw []byte) error {
	if bad, ok := errors.AsType[*strictjson.Error](strictjson.Check(raw, strictjson.Wire)); ok {
		return fmt.Errorf("line %d: %s", lineOf(data, raw, bad.Offset), bad.Message)
	}
	return nil
}

// syntaxError adds the place to an error of JSON.
func syntaxError(data []byte, name string, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset := syntax.Offset
		if strings.HasPrefix(syntax.Error(), "unexpected end") {
			offset++ // the missing text would follow the last byte
		}
		line, column := position(data, offset)
		return fmt.Errorf("%s:%d:%d: this is not valid JSON: %w", name, line, column, err)
	case errors.As(err, &kind):
		return fmt.Errorf("%s: the top level is not a JSON object", name)
	default:
		return fmt.Errorf("%s: %w", name, err)
	}
}

// position returns the line and column of a byte, both from 1. offset is the number of bytes up to and including it.
func position(data []byte, offset int64) (line, column int) {
	before := data[:min(max(offset-1, 0), int64(len(data)))]
	line = 1 + bytes.Count(before, []byte{'\n'})
	column = len(before) - bytes.LastIndexByte(before, '\n')
	return line, column
}

// lineOf returns the line of a byte in a part of the text.
func lineOf(data, part []byte, offset int) int {
	start := cap(data) - cap(part) // part is a slice of data, so their capacities end at the same byte
	line, _ := position(data, int64(start+offset+1))
	return line
}

// configUID returns the UID of a configured server, which changes only with the server's text.
func configUID(st stanza, id, owner string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s", owner, id, st.raw)
	return "config:" + hex.EncodeToString(h.Sum(nil)[:16])
}
