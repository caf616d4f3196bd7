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
	// keepBuffer is how much buffer an idle connection keeps.
	keepBuffer = 16 << 10
	// tailSize is how much of the end of a line is kept that is too long.
	tailSize = 256
	// maxSkips, in lines of the longest length, and skipLimit bound what is skipped of one line: 2 GiB by default.
	maxSkips  = 64
	skipLimit = 30 * time.Second
)

// lines reads lines of bounded length.
type lines struct {
	src   *bufio.Reader
	limit int // bytes of a line that are kept
	most  int // bytes that size may reach
	size  int // bytes that were read since the owner reset it
	// skips is told of a line that is too long, and reports whether the rest of it is skipped; nil: always.
	skips func(beginning []byte) bool

	buf []byte // of a line that is longer than src's buffer
}

func newLines(src io.Reader, limit, most int) *lines {
	return &lines{src: bufio.NewReaderSize(src, 4096), limit: limit, most: most}
}

// next returns a line with its end, which the last one may lack. Of one that is too long it returns the beginning and the tail, which is nil
// otherwise. The memory is used again by the next call.
func (l *lines) next() (line, tail []byte, err error) {
	if cap(l.buf) > keepBuffer {
		l.buf = nil // one large message must not pin its memory
	}
	l.buf = l.buf[:0]
	var begin time.Time
	for {
		part, err := l.src.ReadSlice('\n')
		l.size += len(part)
		switch room := l.limit - len(l.buf); {
		case tail == nil && len(part) <= room && err == nil && len(l.buf) == 0:
			return part, nil, nil // in src's buffer
		case tail == nil && len(part) <= room:
			l.buf = append(l.buf, part...)
		case tail == nil:
			l.buf = append(l.buf, part[:room]...)
			if l.skips != nil && !l.skips(l.buf) {
				return nil, nil, endless(l.limit)
			}
			begin, tail = time.Now(), make([]byte, 0, tailSize)
			fallthrough
		default:
			part = part[max(0, len(part)-tailSize):]
			keep := min(len(tail), tailSize-len(part))
			tail = append(tail[:copy(tail, tail[len(tail)-keep:])], part...)
		}
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(l.buf) > 0:
			return l.buf, tail, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, nil, err
		case tail != nil && (l.size > l.most || time.Since(begin) > skipLimit):
			return nil, nil, endless(l.limit)
		}
	}
}

// endless is the error of a stream that cannot be read on: the request that a message answers is not known, and would wait for ever.
func endless(limit int) *Error {
	e := tooLong(limit)
	e.Lost = true
	return e
}

const (
	// maxNoise is how many lines in a row may be something other than JSON-RPC: a stray log line is forgiven, a program that
	// is not an MCP server is not.
	maxNoise = 100
	// noiseSample is how much of such a line is kept for error messages.
	noiseSample = 200
)

// lineReader reads a child's stdout: one JSON-RPC message per line. It skips lines that are not JSON objects, and ends where a response is too
// long and its request is not known.
type lineReader struct {
	lines   *lines
	take    func(m message, line []byte) // also gets responses that cannot be used, with the reason
	run     int                          // lines in a row that were noise
	long    message                      // what the beginning of the current line says, if it is too long
	refused bool                         // long was passed on

	mu    sync.Mutex
	noise string // guarded by mu; the first line that was noise, quoted
}

func newLineReader(src io.Reader, limit int, take func(message, []byte)) *lineReader {
	r := &lineReader{lines: newLines(src, limit, maxSkips*limit), take: take}
	r.lines.skips = r.tooLong
	return r
}

// tooLong handles the beginning of a line that is too long. The request that it answers fails at once if its id is there, else when the line
// has ended with it.
func (r *lineReader) tooLong(beginning []byte) bool {
	beginning = bytes.TrimSpace(beginning)
	if !bytes.HasPrefix(beginning, []byte("{")) {
		return false
	}
	r.long = readMessage(beginning).cutOff(nil)
	if _, known := integer(r.long.ID); known && r.long.Answer {
		r.refused = true
		r.take(r.long, nil)
	}
	return true
}

// read reads lines until the stream ends and returns why: io.EOF if the child closed it.
func (r *lineReader) read() error {
	for {
		r.lines.size, r.refused = 0, false
		line, tail, err := r.lines.next()
		if err == nil {
			err = r.line(bytes.TrimSpace(line), tail)
		}
		if err != nil {
			return err
		}
	}
}

// line passes a message on, or counts what is not one. tail is the end of a line that is too long, else nil.
func (r *lineReader) line(text, tail []byte) error {
	m := message{Err: errNoObject}
	switch {
	case r.refused:
		return nil
	case tail != nil:
		m = r.long.cutOff(tail)
	case len(text) > 0 && text[0] == '{':
		m = readMessage(text)
	}
	_, known := integer(m.ID)
	switch {
	case m.Err == nil:
		r.run = 0
		r.take(m, text)
		return nil
	case m.Answer && !m.Method && known:
		r.take(m, nil)
		return nil
	case tail != nil && !m.Method:
		return endless(r.lines.limit)
	}
	r.mu.Lock()
	if r.noise == "" && len(text) > 0 {
		r.noise = fmt.Sprintf("%q", strings.ToValidUTF8(string(text[:min(len(text), noiseSample)]), "\uFFFD"))
	}
	r.mu.Unlock()
	if r.run++; r.run >= maxNoise {
		return &Error{Kind: Protocol, Sent: true, Lost: true, Message: "the program does not speak MCP on its stdout: it wrote " + r.Noise()}
	}
	return nil
}

// Noise returns the first line that was not JSON-RPC, quoted, or "".
func (r *lineReader) Noise() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noise
}
