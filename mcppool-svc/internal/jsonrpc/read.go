package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// keepBuffer is the largest buffer that an idle connection keeps.
	keepBuffer = 16 << 10
	// tailSize is how many bytes are kept of the end of a line that is too long.
	tailSize = 256
	// MaxSkips bounds how much of a line that is too long is read and skipped, in multiples of the limit: 2 GiB by default.
	MaxSkips = 64
	// skipLimit bounds the time for skipping.
	skipLimit = 30 * time.Second
)

// lines reads lines of bounded length.
type lines struct {
	src   *bufio.Reader
	limit int // bytes of a line that are kept
	most  int // bytes that size may reach
	size  int // bytes that were read since the owner reset it
	// skips gets the beginning of a line that is too long, and reports whether the rest of it is skipped; nil: always.
	skips func(beginning []byte) bool

	buf []byte // of a line that is longer than src's buffer
}

func newLines(src io.Reader, limit, most int) *lines {
	return &lines{src: bufio.NewReaderSize(src, 4096), limit: limit, most: most}
}

// next returns a line with its newline, which the last line may lack. If a line is too long, it returns the beginning and the end (tail);
// otherwise tail is nil. The next call overwrites the memory.
func (l *lines) next() (line, tail []byte, err error) {
	if cap(l.buf) > keepBuffer {
		l.buf = nil // one large message must not pin its memory
	}
	l.buf = l.buf[:0]
	var begin time.Time
	for {
		part, err := l.src.ReadSlice('\n')
		l.size += len(part)
		whole := err == nil && len(l.buf) == 0
		switch room := l.limit - len(l.buf); {
		case whole && len(part) <= room:
			return part, nil, nil // in src's buffer
		case tail == nil && len(part) <= room:
			l.buf = append(l.buf, part...)
		case tail == nil:
			l.buf = append(l.buf, part[:room]...)
			if l.skips != nil && !l.skips(l.buf) {
				return nil, nil, ErrEndless
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
		case tail != nil && l.skippedTooMuch(begin):
			return nil, nil, ErrEndless
		}
	}
}

func (l *lines) skippedTooMuch(begin time.Time) bool {
	return l.size > l.most || time.Since(begin) > skipLimit
}

// Why a stream cannot be read on.
var (
	// ErrEndless means that a message is too long, and that its request cannot be found: the request would wait for ever.
	ErrEndless = errors.New("a message is too long, and the request that it answers is not known")
	// ErrNoise means that a program writes something other than JSON-RPC.
	ErrNoise = errors.New("the program does not speak JSON-RPC")
)

const (
	// maxNoise is how many lines in a row may be something other than JSON-RPC: a stray log line is forgiven, a program that
	// is not an MCP server is not.
	maxNoise = 100
	// noiseSample is how much of such a line is kept for error messages.
	noiseSample = 200
)

// LineReader reads a child's stdout: one JSON-RPC message per line. It skips lines that are not JSON objects, and fails if a response is too
// long and its request is not known.
type LineReader struct {
	lines   *lines
	take    func(m Message, line []byte)
	run     int     // lines in a row that were noise
	long    Message // read from the beginning of the current line, if it is too long
	refused bool    // take has got long

	mu    sync.Mutex
	noise string // guarded by mu; the first line that was noise, quoted
}

// NewLineReader makes a LineReader of messages of at most limit bytes. take gets each message with its text, whose memory is reused after take
// returns. A response that cannot be used has no text.
func NewLineReader(src io.Reader, limit int, take func(Message, []byte)) *LineReader {
	r := &LineReader{lines: newLines(src, limit, MaxSkips*limit), take: take}
	r.lines.skips = r.tooLong
	return r
}

// tooLong handles the beginning of a line that is too long. If the id is in it, the request fails at once; otherwise line looks for the id in
// the end of the line.
func (r *LineReader) tooLong(beginning []byte) bool {
	beginning = bytes.TrimSpace(beginning)
	if !bytes.HasPrefix(beginning, []byte("{")) {
		return false
	}
	r.long = ReadMessage(beginning).CutOff(nil)
	if _, known := ID(r.long.ID); known && r.long.Answer {
		r.refused = true
		r.take(r.long, nil)
	}
	return true
}

// Read reads lines until the stream ends and returns why: io.EOF if the child closed it.
func (r *LineReader) Read() error {
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

// line passes a message to take, or counts the line as noise. tail is the end of a line that is too long, else nil.
func (r *LineReader) line(text, tail []byte) error {
	m := Message{Err: errNoObject}
	switch {
	case r.refused:
		return nil
	case tail != nil:
		m = r.long.CutOff(tail)
	case len(text) > 0 && text[0] == '{':
		m = ReadMessage(text)
	}
	_, known := ID(m.ID)
	switch {
	case m.Err == nil:
		r.run = 0
		r.take(m, text)
		return nil
	case m.Answer && !m.Method && known:
		r.take(m, nil)
		return nil
	case tail != nil && !m.Method:
		return ErrEndless
	}
	r.mu.Lock()
	if r.noise == "" && len(text) > 0 {
		r.noise = fmt.Sprintf("%q", strings.ToValidUTF8(string(text[:min(len(text), noiseSample)]), "\uFFFD"))
	}
	r.mu.Unlock()
	if r.run++; r.run >= maxNoise {
		return ErrNoise
	}
	return nil
}

// Noise returns the first line that was not JSON-RPC, quoted, or "".
func (r *LineReader) Noise() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noise
}

// minRetry is the shortest time before a stream is opened again, even if the server names a shorter one.
const minRetry = 10 * time.Millisecond

// Event is one event of a stream.
type Event struct {
	Name string
	Data []byte
	Tail []byte // the end of data that was longer than the limit, and cut off there; else nil
}

// IsMessage reports whether the event carries a message.
func (e Event) IsMessage() bool { return e.Name == "" || e.Name == "message" }

// EventReader reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
type EventReader struct {
	lines *lines
	limit int // bytes of an event's data

	LastID string        // of the last whole event that had one
	Retry  time.Duration // how long to wait before the stream is opened again; 0 if the server set none
}

// NewEventReader makes an EventReader. Data of more than limit bytes is cut off; an event longer than multiple times the limit is an error.
func NewEventReader(src io.Reader, limit, multiple int) *EventReader {
	return &EventReader{lines: newLines(src, limit+len("data: ")+2, multiple*limit), limit: limit}
}

// Next reads one event, whose data may have many lines. It returns io.EOF at the end of the stream.
func (r *EventReader) Next() (Event, error) {
	var e Event
	id := r.LastID
	r.lines.size = 0
	for count := 0; ; {
		line, tail, err := r.lines.next()
		switch {
		case errors.Is(err, io.EOF) && count > 0:
			return e, nil // not ended, but whole
		case err != nil:
			return Event{}, err
		case r.lines.size > r.lines.most:
			return Event{}, ErrEndless
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			r.LastID = id
			if count > 0 {
				return e, nil
			}
			e, r.lines.size = Event{}, 0
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.Name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				r.Retry = max(time.Duration(ms)*time.Millisecond, minRetry)
			}
		case "data":
			if count++; count > 1 {
				e.Data = append(e.Data, '\n')
			}
			e.add(value, tail, r.limit)
		}
	}
}

// add adds a line to the data, up to the limit.
func (e *Event) add(value, tail []byte, limit int) {
	room := max(0, limit-len(e.Data))
	if len(value) > room || tail != nil || e.Tail != nil {
		if tail == nil {
			tail = value[max(0, len(value)-tailSize):]
		}
		e.Tail = append(make([]byte, 0, tailSize), tail...)
	}
	e.Data = append(e.Data, value[:min(len(value), room)]...)
}
