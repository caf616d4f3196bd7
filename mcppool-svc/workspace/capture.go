package workspace

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

const (
	// maxHead and maxTail are how many bytes of a program's output are kept from its beginning and its end.
	maxHead = 32 << 10
	maxTail = 96 << 10
	// maxOutputLine bounds a line that is read as a whole; longer ones are passed on in parts.
	maxOutputLine = 1 << 20
	// reportEvery is the time between two progress notifications.
	reportEvery = 250 * time.Millisecond
)

// capture keeps the beginning and the end of a program's output, and reports its last lines.
type capture struct {
	head, tail []byte // text uses the last maxTail bytes of tail
	total      int64
	report     reporter
	reported   time.Time
}

func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	if c.report != nil && time.Since(c.reported) >= reportEvery {
		if line := lastLine(p); line != "" {
			c.report(int(c.total), line)
			c.reported = time.Now()
		}
	}
	take := min(n, maxHead-len(c.head))
	c.head, p = append(c.head, p[:take]...), p[take:]
	if c.tail = append(c.tail, p[max(0, len(p)-maxTail):]...); len(c.tail) > 2*maxTail {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-maxTail:]...)
	}
	return n, nil
}

// lastLine returns the last line of text that is not empty, shortened.
func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return toValidUTF8(cutRunes(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:]), 200))
}

// text returns what was kept, and how many bytes between its two parts were not.
func (c *capture) text() (string, int64) {
	tail := c.tail[max(0, len(c.tail)-maxTail):]
	omitted := c.total - int64(len(c.head)+len(tail))
	if omitted == 0 {
		return toValidUTF8(append(bytes.Clone(c.head), tail...)), 0
	}
	return fmt.Sprintf("%s\n[… %s left out …]\n%s", toValidUTF8(c.head), plural(omitted, "byte", "bytes"), toValidUTF8(tail)), omitted
}

// lineWriter passes a stream on line by line, each with its line end if it has one.
type lineWriter struct {
	pass func(line string)
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		if end == 0 {
			end = len(p)
		}
		w.rest, p = append(w.rest, p[:end]...), p[end:]
		if w.rest[len(w.rest)-1] == '\n' || len(w.rest) > maxOutputLine {
			w.flush()
		}
	}
	return n, nil
}

// flush passes on what follows the last line end.
func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.pass(strings.ToValidUTF8(string(w.rest), "\uFFFD"))
		w.rest = w.rest[:0]
	}
}
