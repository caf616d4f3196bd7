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
	// maxNoise is how many lines in a row may be something else than JSON-RPC: a stray log line is forgiven, a program
	// that is no MCP server is not.
	maxNoise = 100
	// noiseSample is how much of such a line is kept for error messages.
	noiseSample = 200
	// keepBuffer is how much buffer an idle connection keeps.
	keepBuffer = 16 << 10
	// tailSize is how much of the end of a line that is left out is looked at.
	tailSize = 256
	// maxSkips, in lines of the longest length, and skipLimit bound what is left out of one line: 2 GiB by default.
	maxSkips  = 64
	skipLimit = 30 * time.Second
)

// lineReader stands between a child's stdout and mcp-go, whose own reader takes lines of any length and drops in silence
// what it does not understand. It passes on whole lines that are JSON objects, puts a verdict in the place of answers that
// are too long or ambiguous, and ends the stream where that cannot be done. The end always looks like io.EOF from outside,
// since mcp-go logs everything else; Err says why.
type lineReader struct {
	src   *bufio.Reader
	limit int
	eof   chan struct{}
	judge *judge
	notes *throttle

	line []byte // what is left of the current line
	buf  []byte // its backing store
	run  int    // lines in a row that were noise
	skip bool   // the rest of the current line is to be left out

	mailbox // of those that wait for answers

	mu    sync.Mutex
	err   error  // guarded by mu; why the stream ended
	noise string // guarded by mu; the first line that was noise
}

func newLineReader(src io.Reader, limit int) *lineReader {
	return &lineReader{src: bufio.NewReaderSize(src, 4096), limit: limit, eof: make(chan struct{}), judge: newJudge(limit), notes: newThrottle()}
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
			return r.sift(part) // as it lies in src, which is not read on before the line is
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

// tooLong does with a line over the limit what can be done: who waits for it is told at once where its beginning says who
// that is, else once it has ended, where its end does.
func (r *lineReader) tooLong(part []byte, ended bool) error {
	beginning := bytes.TrimSpace(append(r.buf, part[:r.limit-len(r.buf)]...))
	if len(beginning) == 0 || beginning[0] != '{' {
		return r.endless()
	}
	m := readMessage(beginning)
	last := bytes.Clone(part[max(0, len(part)-tailSize):])
	r.buf = nil // the memory
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
		return r.count() // it asks or tells something of that length
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

// sift keeps a JSON object, judges answers that cannot be used, and counts the rest.
func (r *lineReader) sift(line []byte) error {
	text := bytes.TrimSpace(line)
	if len(text) > 0 && text[0] == '{' {
		switch m := readMessage(text); {
		case m.Err == nil && !m.Method && r.settle(m):
			r.run = 0
			return nil
		case m.Err == nil:
			r.run = 0
			r.line = line
			switch {
			case m.Method && len(m.ID) > 0:
				r.notes.ask(len(text))
			case m.Method:
				r.notes.wait(len(text))
			}
			return nil
		case m.Answer && !m.Method && numericID.Match(m.ID):
			r.refuse(m.ID, m.Err)
			return nil
		}
	}
	if len(text) > 0 {
		r.remember(text)
	}
	return r.count()
}

// settle gives an answer to who waits for it; false where nobody does.
func (r *lineReader) settle(m message) bool {
	if !m.Answer {
		return false
	}
	to := r.take(m.ID)
	if to == nil {
		return false
	}
	to <- reply{result: bytes.Clone(m.Result), failure: bytes.Clone(m.Error)} // copies: the line's store is used again
	return true
}

// refuse puts a verdict in the place of an answer.
func (r *lineReader) refuse(id []byte, why error) {
	if to := r.take(id); to != nil {
		to <- reply{verdict: r.judge.details(why)}
		return
	}
	r.line = r.judge.line(id, why)
}

// count counts a line that was left out.
func (r *lineReader) count() error {
	if r.run++; r.run >= maxNoise {
		return &Error{Kind: Protocol, Sent: true, Lost: true,
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
