package mcpgo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"pawl.dev/mcppool-svc/internal/upstream"
)

const (
	// maxNoise is how many lines in a row may be something else than JSON-RPC: a stray log line is forgiven, a program
	// that is no MCP server is not.
	maxNoise = 100
	// noiseSample is how much of such a line is kept for error messages.
	noiseSample = 200
	// keepBuffer is how much buffer an idle connection keeps.
	keepBuffer = 16 << 10
)

// lineReader stands between a child's stdout and mcp-go, whose own reader takes lines of any length and drops in silence
// what it does not understand. It passes on whole lines that are JSON objects, and ends the stream at one that is too
// long. The end always looks like io.EOF from outside, since mcp-go logs everything else; Err says why.
type lineReader struct {
	src   *bufio.Reader
	limit int
	eof   chan struct{}

	line []byte // what is left of the current line
	buf  []byte // its backing store
	run  int    // lines in a row that were noise

	mu    sync.Mutex
	err   error  // guarded by mu; why the stream ended
	noise string // guarded by mu; the first line that was noise
}

func newLineReader(src io.Reader, limit int) *lineReader {
	return &lineReader{src: bufio.NewReaderSize(src, 4096), limit: limit, eof: make(chan struct{})}
}

// Read is called by mcp-go's read loop alone.
func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.line) == 0 {
		if err := r.next(); err != nil {
			r.end(err)
			return 0, io.EOF
		}
	}
	n := copy(p, r.line)
	r.line = r.line[n:]
	return n, nil
}

// next reads one line; r.line stays empty where it was noise.
func (r *lineReader) next() error {
	if cap(r.buf) > keepBuffer {
		r.buf = nil // one large message must not pin its memory
	}
	r.buf = r.buf[:0]
	for {
		part, err := r.src.ReadSlice('\n')
		if len(r.buf)+len(part) > r.limit {
			return &upstream.Error{Kind: upstream.TooLarge, Sent: true, Lost: true,
				Message: fmt.Sprintf("the server sent a message of more than %d MiB; ask the tool for less", r.limit>>20)}
		}
		r.buf = append(r.buf, part...)
		switch {
		case err == nil:
			return r.sift(r.buf)
		case errors.Is(err, io.EOF) && len(r.buf) > 0:
			return r.sift(append(r.buf, '\n')) // the last line, not quite ended
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// sift keeps a JSON object and counts the rest.
func (r *lineReader) sift(line []byte) error {
	text := bytes.TrimSpace(line)
	if len(text) > 0 && text[0] == '{' && json.Valid(text) {
		r.run = 0
		r.line = line
		return nil
	}
	r.run++
	if len(text) > 0 {
		r.remember(text)
	}
	if r.run >= maxNoise {
		return &upstream.Error{Kind: upstream.Protocol, Sent: true, Lost: true,
			Message: "the program does not speak MCP on its stdout: it wrote " + r.Noise()}
	}
	return nil
}

func (r *lineReader) remember(text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noise == "" {
		r.noise = strings.ToValidUTF8(string(text[:min(len(text), noiseSample)]), "\uFFFD")
	}
}

func (r *lineReader) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
		close(r.eof)
	}
}

// Noise returns the first line that was not JSON-RPC, quoted; empty where there was none.
func (r *lineReader) Noise() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noise == "" {
		return ""
	}
	return fmt.Sprintf("%q", r.noise)
}

// Err says why the stream ended, after eof is closed; io.EOF where the child closed it.
func (r *lineReader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
