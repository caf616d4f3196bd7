package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// keepBuffer is the largest buffer that an idle connection keeps.
	keepBuffer = 16 << 10
	// partSize is the size of the parts in which a long line is collected.
	partSize = 256 << 10
	// tailSize is how many bytes are kept of the end of a line that is too long.
	tailSize = 256
	// SkipFactor bounds how much of a line that is too long is read, in multiples of a message's limit.
	SkipFactor = 64
	// skipLimit bounds the time for skipping the rest of a line.
	skipLimit = 30 * time.Second
)

// lines reads lines of bounded length.
type lines struct {
	src     *bufio.Reader
	limit   int // bytes of a line that are kept
	maxRead int // a line that is too long is skipped until read reaches this
	read    int // bytes read since the owner reset it
	// maySkip gets the beginning of a line that is too long, and returns what next is to return of it, and whether to skip the rest.
	maySkip func(beginning []byte) (text []byte, skip bool)
	// admit waits until a large message of at most so many bytes may be read; nil: at once.
	admit func(most int) *Held

	// A line that is longer than src's buffer is collected in parts, which are joined at its end: a growing buffer would copy it more often.
	parts [][]byte // full; guarded by mu
	buf   []byte   // the newest part; guarded by mu
	kept  int      // bytes in all parts
	held  *Held    // of the current message

	// mu is taken for the parts of long lines only: drop is called by another goroutine.
	mu sync.Mutex
	// stalled reports that the server stopped in the middle of a large message, so that its beginning was dropped.
	stalled atomic.Bool
	// data is what an EventReader has collected of its current event; guarded by mu.
	data []byte
}

func newLines(src io.Reader, limit, maxRead int) *lines {
	return &lines{src: bufio.NewReaderSize(src, 4096), limit: limit, maxRead: maxRead, maySkip: func(beginning []byte) ([]byte, bool) { return beginning, true }}
}

// inputLine is a line that was read.
type inputLine struct {
	text []byte // with the newline, which the last line may lack
	tail []byte // the end of a line that is too long, of which text is the beginning; else nil
	own  bool   // the reader of the line may keep text; otherwise the next call of next overwrites it
}

// next returns the next line.
func (l *lines) next() (inputLine, error) {
	l.mu.Lock()
	l.parts, l.buf, l.kept = nil, l.buf[:0], 0
	l.mu.Unlock()
	var skipStart time.Time
	var long inputLine // once the line is too long
	for {
		part, err := l.src.ReadSlice('\n')
		l.read += len(part)
		if l.dropped(long) {
			return inputLine{}, ErrStalled
		}
		whole := err == nil && l.kept == 0
		switch room := l.limit - l.kept; {
		case whole && len(part) <= room:
			return inputLine{text: part}, nil // in src's buffer
		case long.tail == nil && len(part) <= room:
			l.keep(part)
		case long.tail == nil:
			l.keep(part[:room])
			var skip bool
			if long.text, skip = l.maySkip(l.join().text); !skip {
				return inputLine{}, ErrEndless
			}
			skipStart, long.tail = time.Now(), make([]byte, 0, tailSize)
			fallthrough
		default:
			part = part[max(0, len(part)-tailSize):]
			keep := min(len(long.tail), tailSize-len(part))
			long.tail = append(long.tail[:copy(long.tail, long.tail[len(long.tail)-keep:])], part...)
		}
		switch {
		case err == nil || errors.Is(err, io.EOF) && l.kept > 0:
			return l.end(long)
		case !errors.Is(err, bufio.ErrBufferFull):
			return inputLine{}, err
		case long.tail != nil && l.skippedTooMuch(skipStart):
			return inputLine{}, ErrEndless
		}
	}
}

// end returns a line that was read to its end; long is its beginning and tail if it is too long.
func (l *lines) end(long inputLine) (inputLine, error) {
	if long.tail != nil {
		return long, nil
	}
	l.held.goesOn()
	line := l.join()
	if l.stalled.Load() {
		return inputLine{}, ErrStalled
	}
	return line, nil
}

// dropped reports whether the beginning of a line was dropped; of a line that is too long, it was used already.
func (l *lines) dropped(long inputLine) bool { return long.tail == nil && l.stalled.Load() }

// keep appends a part of a long line.
func (l *lines) keep(part []byte) {
	l.admitLarge(l.kept + len(part))
	l.kept += len(part)
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(part) > 0 && !l.stalled.Load() {
		if len(l.buf) == partSize {
			l.parts, l.buf = append(l.parts, l.buf), make([]byte, 0, partSize)
			l.held.goesOn()
		}
		n := min(len(part), partSize-len(l.buf))
		l.buf = append(l.buf, part[:n]...)
		part = part[n:]
	}
}

// join returns what keep has collected. The memory of short lines is used again.
func (l *lines) join() inputLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.parts) > 0 {
		l.buf = bytes.Join(append(l.parts, l.buf), nil)
		l.parts = nil
	}
	text := l.buf
	if cap(text) > keepBuffer {
		l.buf = nil
	}
	return inputLine{text: text, own: l.buf == nil}
}

// drop drops what was read of a large message.
func (l *lines) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled.Store(true)
	l.parts, l.buf, l.data = nil, nil, nil
}

// admitLarge waits before a message grows from less than largeMessage to size. The length of the message is not known yet, so it counts for the
// limit until it is read.
func (l *lines) admitLarge(size int) {
	if size > largeMessage && l.held == nil && l.admit != nil {
		l.held = l.admit(l.limit)
		l.held.onStall(l.drop)
	}
}

// takeHeld returns what a message of a size holds; the caller has to release it.
func (l *lines) takeHeld(size int) *Held {
	h := l.held
	l.held = nil
	h.read(size)
	return h
}

func (l *lines) skippedTooMuch(start time.Time) bool {
	return l.read > l.maxRead || time.Since(start) > skipLimit
}

// The errors that end a stream.
var (
	// ErrEndless means that a message is too long to skip, or that a response is too long and its request is not known.
	ErrEndless = errors.New("a message is too long, and the request that it answers is not known")
	// ErrStalled means that the server stopped in the middle of a large message for longer than stallLimit.
	ErrStalled = fmt.Errorf("the server stopped in the middle of a large message for more than %v", stallLimit)
	// ErrNoise means that a program writes something other than JSON-RPC.
	ErrNoise = errors.New("the program does not speak JSON-RPC")
)

const (
	// maxNoise is how many lines in a row may be something other than JSON-RPC, such as stray log lines.
	maxNoise = 100
	// noiseSample is how many bytes of such a line are kept for error messages.
	noiseSample = 200
)

// LineReader reads a child's stdout: one JSON-RPC message per line. It skips lines without a usable message, but fails at maxNoise of
// them in a row. It also fails at a response that is too long if its id cannot be read.
type LineReader struct {
	lines      *lines
	take       func(m Message, line []byte)
	noiseInRow int     // how many lines in a row were noise
	long       Message // read from the beginning of the current line, if that is too long
	tookLong   bool    // take was called with long

	mu    sync.Mutex
	noise string // guarded by mu; the first line that was noise, quoted
}

// NewLineReader makes a LineReader of messages of at most limit bytes. take gets each message with its text, whose memory is reused after take
// returns, unless Message.Own is set. A response that cannot be used comes without text.
func NewLineReader(src io.Reader, limit int, take func(Message, []byte)) *LineReader {
	r := &LineReader{lines: newLines(src, limit, SkipFactor*limit), take: take}
	r.lines.maySkip = r.handleLong
	return r
}

// SetAdmit makes the reader call admit before it reads more than the beginning of a large message. admit gets the greatest possible size.
func (r *LineReader) SetAdmit(admit func(most int) *Held) { r.lines.admit = admit }

// handleLong handles the beginning of a line that is too long, and reports whether to skip the rest. If the line is a response whose id is in
// the beginning, its request fails at once; otherwise handle looks for the id at the end of the line.
func (r *LineReader) handleLong(beginning []byte) (text []byte, skip bool) {
	beginning = bytes.TrimSpace(beginning)
	if !bytes.HasPrefix(beginning, []byte("{")) {
		return nil, false
	}
	r.long = ReadMessage(beginning).CutOff(nil)
	r.long.ID, r.long.Result, r.long.Error = bytes.Clone(r.long.ID), nil, nil // the beginning itself is no longer needed
	if _, known := ID(r.long.ID); known && r.long.Answer {
		r.tookLong = true
		r.take(r.long, nil)
	}
	return nil, true
}

// Read reads lines until the stream ends, and returns the reason: io.EOF if the child closed it.
func (r *LineReader) Read() error {
	defer func() { r.lines.takeHeld(0).Release() }()
	for {
		r.lines.takeHeld(0).Release()
		r.lines.read, r.tookLong = 0, false
		read, err := r.lines.next()
		if err == nil {
			err = r.handle(read)
		}
		if err != nil {
			return err
		}
	}
}

// handle passes a line's message to take, or counts the line as noise.
func (r *LineReader) handle(read inputLine) error {
	text := bytes.TrimSpace(read.text)
	m := Message{Err: errNoObject}
	switch {
	case r.tookLong:
		return nil
	case read.tail != nil:
		m = r.long.CutOff(read.tail)
	case len(text) > 0 && text[0] == '{':
		m = ReadMessage(text)
	}
	_, known := ID(m.ID)
	switch {
	case m.Err == nil:
		r.noiseInRow = 0
		m.Held, m.Own = r.lines.takeHeld(len(text)), read.own
		r.take(m, text)
		return nil
	case m.Answer && !m.Method && known:
		r.take(m, nil)
		return nil
	case read.tail != nil && !m.Method:
		return ErrEndless
	}
	r.mu.Lock()
	if r.noise == "" && len(text) > 0 {
		r.noise = fmt.Sprintf("%q", strings.ToValidUTF8(string(text[:min(len(text), noiseSample)]), "\uFFFD"))
	}
	r.mu.Unlock()
	if r.noiseInRow++; r.noiseInRow >= maxNoise {
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

// minRetry is the shortest wait before a stream is opened again, even if the server sets a shorter one.
const minRetry = 10 * time.Millisecond

// Event is one event of a stream.
type Event struct {
	Name string
	Data []byte
	Tail []byte // if data was longer than the limit and is cut off: its end; else nil
	Held *Held  // the receiver releases it
}

// IsMessage reports whether the event carries a message.
func (e Event) IsMessage() bool { return e.Name == "" || e.Name == "message" }

// EventReader reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
type EventReader struct {
	lines *lines
	limit int // bytes of an event's data

	LastID string        // the latest event id, of a complete event
	Retry  time.Duration // how long to wait before the stream is opened again; 0 if the server set none
}

// NewEventReader makes an EventReader. Data of more than limit bytes is cut off; an event longer than multiple times the limit
// is ErrEndless.
func NewEventReader(src io.Reader, limit, multiple int) *EventReader {
	return &EventReader{lines: newLines(src, limit+len("data: ")+2, multiple*limit), limit: limit}
}

// SetAdmit is LineReader.SetAdmit for events.
func (r *EventReader) SetAdmit(admit func(most int) *Held) { r.lines.admit = admit }

// Next reads one event, whose data may have many lines. It returns io.EOF at the end of the stream.
func (r *EventReader) Next() (Event, error) {
	e, err := r.next()
	r.lines.mu.Lock()
	e.Data, r.lines.data = r.lines.data, nil
	r.lines.mu.Unlock()
	if e.Held = r.lines.takeHeld(len(e.Data)); err == nil && r.lines.stalled.Load() {
		err = ErrStalled
	}
	if err != nil {
		e.Held.Release()
		return Event{}, err
	}
	return e, nil
}

// next reads one event, and leaves its data in r.lines.
func (r *EventReader) next() (Event, error) {
	var e Event
	id := r.LastID
	r.lines.read = 0
	for count := 0; ; {
		read, err := r.lines.next()
		switch {
		case errors.Is(err, io.EOF) && count > 0:
			return e, nil // only the empty line at its end is missing
		case err != nil:
			return Event{}, err
		case r.lines.read > r.lines.maxRead:
			return Event{}, ErrEndless
		}
		text := bytes.TrimRight(read.text, "\r\n")
		if len(text) == 0 {
			r.LastID = id
			if count > 0 {
				return e, nil
			}
			e, r.lines.read = Event{}, 0 // without data
			continue
		}
		field, value, _ := bytes.Cut(text, []byte(":"))
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
			count++
			r.add(&e, value, read, count > 1)
		}
	}
}

// add appends the value of a line to the event's data, up to the limit.
func (r *EventReader) add(e *Event, value []byte, of inputLine, further bool) {
	l := r.lines
	l.admitLarge(len(l.data) + len(value))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stalled.Load() {
		return
	}
	if further {
		l.data = append(l.data, '\n')
	}
	room := max(0, r.limit-len(l.data))
	if len(value) > room || of.tail != nil || e.Tail != nil {
		tail := of.tail
		if tail == nil {
			tail = value[max(0, len(value)-tailSize):]
		}
		e.Tail = append(make([]byte, 0, tailSize), tail...)
	}
	value = value[:min(len(value), room)]
	if len(l.data) == 0 && of.own {
		l.data = slices.Clip(value)
	} else {
		l.data = append(l.data, value...)
	}
}

// ReadBody reads a body of at most limit+1 bytes, and calls admit, which may be nil, before it reads more than the beginning of a large one. The
// caller releases what the body holds.
func ReadBody(body io.Reader, limit int, admit func(most int) *Held) ([]byte, *Held, error) {
	l := newLines(nil, limit+1, 0)
	l.admit = admit
	part := make([]byte, 4096)
	for {
		n, err := body.Read(part[:min(len(part), l.limit-l.kept)])
		l.keep(part[:n])
		switch {
		case l.stalled.Load():
			return nil, l.takeHeld(0), ErrStalled
		case errors.Is(err, io.EOF), err == nil && l.kept == l.limit:
			return l.join().text, l.takeHeld(l.kept), nil
		case err != nil:
			return nil, l.takeHeld(0), err
		}
	}
}
