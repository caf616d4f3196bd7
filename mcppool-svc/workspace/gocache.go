package workspace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// goCacheName is the argument that makes this executable a Go build cache, as GOCACHEPROG: `EXECUTABLE goCacheName SHARED OWN`. The go command
// needs a cache that it can write; a program that could write the user's could change what other builds of the user produce.
const goCacheName = "pawl-go-cache"

func init() {
	if len(os.Args) != 4 || os.Args[1] != goCacheName {
		return
	}
	cache := goCache{shared: os.Args[2], own: os.Args[3]}
	if err := cache.serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// goCache reads from two folders in the format of GOCACHE and writes to its own.
type goCache struct{ shared, own string }

// The protocol is that of cmd/go/internal/cacheprog.
type (
	cacheRequest struct {
		ID                 int64
		Command            string
		ActionID, OutputID []byte
		BodySize           int64
	}
	cacheResponse struct {
		ID            int64
		Err           string     `json:",omitempty"`
		KnownCommands []string   `json:",omitempty"`
		Miss          bool       `json:",omitempty"`
		OutputID      []byte     `json:",omitempty"`
		Size          int64      `json:",omitempty"`
		Time          *time.Time `json:",omitempty"`
		DiskPath      string     `json:",omitempty"`
	}
)

// serve answers requests until it is told to close.
func (c *goCache) serve(in io.Reader, out io.Writer) error {
	requests, responses := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	if err := responses.Encode(cacheResponse{KnownCommands: []string{"get", "put", "close"}}); err != nil {
		return err
	}
	for {
		var req cacheRequest
		if err := requests.Decode(&req); err != nil {
			return fmt.Errorf("read a request of the go command: %w", err)
		}
		var resp cacheResponse
		switch req.Command {
		case "get":
			resp = c.get(req.ActionID)
		case "put":
			var body []byte
			if req.BodySize > 0 {
				if err := requests.Decode(&body); err != nil {
					return fmt.Errorf("read what the go command stores: %w", err)
				}
			}
			resp = c.put(req, body)
		}
		resp.ID = req.ID
		if err := responses.Encode(resp); err != nil || req.Command == "close" {
			return err
		}
	}
}

func cacheFile(dir string, id []byte, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%02x", id[:1]), fmt.Sprintf("%x%s", id, suffix))
}

// get returns what an action has produced.
func (c *goCache) get(action []byte) cacheResponse {
	for _, dir := range []string{c.own, c.shared} {
		entry, err := os.ReadFile(cacheFile(dir, action, "-a"))
		var id, output []byte
		var size, when int64
		if _, scanErr := fmt.Sscanf(string(entry), "v1 %x %x %d %d", &id, &output, &size, &when); errors.Join(err, scanErr) != nil {
			continue
		}
		name := cacheFile(dir, output, "-d")
		if info, err := os.Stat(name); err == nil && info.Size() == size {
			made := time.Unix(0, when)
			return cacheResponse{OutputID: output, Size: size, Time: &made, DiskPath: name}
		}
	}
	return cacheResponse{Miss: true}
}

// put stores what an action has produced.
func (c *goCache) put(req cacheRequest, body []byte) cacheResponse {
	name := cacheFile(c.own, req.OutputID, "-d")
	entry := fmt.Sprintf("v1 %x %x %20d %20d\n", req.ActionID, req.OutputID, len(body), time.Now().UnixNano())
	if err := errors.Join(replaceFile(name, body), replaceFile(cacheFile(c.own, req.ActionID, "-a"), []byte(entry))); err != nil {
		return cacheResponse{Err: err.Error()}
	}
	return cacheResponse{DiskPath: name}
}

// replaceFile writes a file that other processes of this cache may read at the same time.
func replaceFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	temp := fmt.Sprintf("%s.%d", name, os.Getpid())
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, name)
}
