package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	// maxNoise is how many lines in a row may be something other than JSON-RPC: a stray log line is forgiven, a program that
	// is not an MCP server is not.
	maxNoise = 100
	// noiseSample is how much of such a line is kept for error messages.
	noiseSample = 200
	// keepBuffer is how much buffer an idle connection keeps.
	keepBuffer = 16 << 10
	// tailSize is how much of the end of a skipped line is looked at.
	tailSize = 256
	// maxSkips, in lines of the longest length, and skipLimit bound what is skipped of one line: 2 GiB by default.
	maxSkips  = 64
	skipLimit = 30 * time.Second
)

// lineReader reads a child's stdout: one JSON-RPC message per line. It skips lines that are not JSON objects, fails the
// requests whose responses are too long or ambiguous, and ends where that cannot be done.
type lineReader struct {
	src    *bufio.Reader
	limit  int
	take   func(m message, line []byte)
	refuse func(id []byte, why error)
	ended  chan struct{} // closed when the stream has ended

	buf  []byte // of a line that is longer than src's buffer
	run  int    // lines in a row that were noise
	skip bool   // the rest of the current line is to be skipped

	mu    sync.Mutex
	err   error  // guarded by mu; why the stream ended
	noise string // guarded by mu; the first line that was noise
}

func newLineReader(src io.Reader, limit int, take func(message, []byte), refuse func([]byte, error)) *lineReader {
	return &lineReader{src: bufio.NewReaderSize(src, 4096), limit: limit, take: take, refuse: refuse, ended: make(chan struct{})}
}

// read reads lines until the stream ends.
func (r *lineReader) read() {
	err := r.next()
	for err == nil {
		err = r.next()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	close(r.ended)
}

// next reads one line.
func (r *lineReader) next() error {
	if cap(r.buf) > keepBuffer {
		r.buf = nil // one large message must not pin its memory
	}
	r.buf = r.buf[:0]
	if r.skip {
		r.skip = false
		if _, err := r.skipLine(); err != nil {
			return err
		}
	}
	for {
		part, err := r.src.ReadSlice('\n')
		if len(r.buf)+len(part) > r.limit {
			return r.tooLong(part, err == nil)
		}
		if err == nil && len(r.buf) == 0 {
			return r.line(part) // in src's buffer
		}
		r.buf = append(r.buf, part...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(r.buf) > 0: // the last line may lack its end
			return r.line(r.buf)
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// tooLong handles a line over the limit. The request that it answers fails at once if the line's beginning has its id, else
// when the line has ended with it.
func (r *lineReader) tooLong(part []byte, ended bool) error {
	beginning := bytes.TrimSpace(append(r.buf, part[:r.limit-len(r.buf)]...))
	if len(beginning) == 0 || beginning[0] != '{' {
		return r.endless()
	}
	m := readMessage(beginning)
	last := bytes.Clone(part[max(0, len(part)-tailSize):])
	r.buf = nil // frees the memory
	switch {
	case m.ID != nil || m.Method:
		r.skip = !ended
	case !ended:
		tail, err := r.skipLine()
		if err != nil {
			return err
		}
		last = append(last, tail...)
	}
	id := m.ID
	if found := lastID.FindSubmatch(last); id == nil && found != nil {
		id = found[1]
	}
	switch {
	case m.Method:
		return r.count() // a request or notification of that length
	case numericID.Match(id):
		r.refuse(id, errTooLong)
		return nil
	}
	return r.endless()
}

func (r *lineReader) endless() error {
	e := tooLong(r.limit)
	e.Lost = true
	return e
}

// skipLine reads to the end of the line and returns its last bytes. A line that does not end ends the stream.
func (r *lineReader) skipLine() (tail []byte, err error) {
	begin, size := time.Now(), 0
	tail = make([]byte, 0, tailSize)
	for {
		part, err := r.src.ReadSlice('\n')
		size += len(part)
		part = part[max(0, len(part)-tailSize):]
		keep := min(len(tail), tailSize-len(part))
		tail = append(tail[:copy(tail, tail[len(tail)-keep:])], part...)
		switch {
		case err == nil:
			return tail, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case size > maxSkips*r.limit || time.Since(begin) > skipLimit:
			return nil, r.endless()
		}
	}
}

// line passes a message on, or counts what is not one.
func (r *lineReader) line(line []byte) error {
	text := bytes.TrimSpace(line)
	if len(text) > 0 && text[0] == '{' {
		m := readMessage(text)
		refused := m.Err != nil && m.Answer && !m.Method && numericID.Match(m.ID)
		if m.Err == nil {
			r.run = 0
			r.take(m, text)
			return nil
		}
		if refused {
			r.refuse(m.ID, m.Err)
			return nil
		}
	}
	if len(text) > 0 {
		r.remember(text)
	}
	return r.count()
}

// count counts a line that was skipped.
func (r *lineReader) count() error {
	if r.run++; r.run >= maxNoise {
		return &Error{Kind: Protocol, Sent: true, Lost: true, Message: "the program does not speak MCP on its stdout: it wrote " + r.Noise()}
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

// Noise returns the first line that was not JSON-RPC, quoted, or "".
func (r *lineReader) Noise() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noise == "" {
		return ""
	}
	return fmt.Sprintf("%q", r.noise)
}

// Err returns why the stream ended, after ended is closed: io.EOF if the child closed it.
func (r *lineReader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
