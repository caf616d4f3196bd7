package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// eventWork bounds what joining the lines of one event may cost: mcp-go appends each line to all before it.
const eventWork = 32

// boundedBody ends a response that is longer than the limit: a whole body, or one event of a stream, which may itself go
// on for ever. mcp-go swallows read errors of streams, so they are noted in the exchange as well.
type boundedBody struct {
	io.ReadCloser
	limit  int
	events bool // it is a stream of them
	answer bool // it is the answer itself
	x      *exchange
	notes  *throttle
	cancel context.CancelFunc

	size int  // of the body, or of the current event
	work int  // sum of the event's sizes at each of its lines
	text bool // the current line holds something; events only
	err  error
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if b.count(p[:n]) {
		e := tooLong(b.limit)
		e.Ended = b.answer
		b.err = e
		b.x.blame(b.err)
		return 0, b.err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.x.blame(err)
	}
	return n, err
}

// count says whether the limit is passed.
func (b *boundedBody) count(p []byte) bool {
	if !b.events {
		b.size += len(p)
		return b.size > b.limit
	}
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		b.size += len(line)
		b.text = b.text || len(bytes.TrimRight(line, "\r")) > 0
		switch {
		case !ended:
		case b.text:
			b.work += b.size
		default:
			b.notes.wait(b.size)
			b.size, b.work = 0, 0 // an empty line ends the event
		}
		b.text = b.text && !ended
		p = rest
	}
	return b.size > b.limit || b.work > eventWork*b.limit
}

// Close implements io.Closer.
func (b *boundedBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}
