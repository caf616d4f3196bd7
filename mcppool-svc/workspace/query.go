package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxProgram bounds the instructions of a compiled regular expression: the time
// to match grows with their number times the length of the line.
const maxProgram = 10_000

// query matches lines for search_code, by needle, re or both.
type query struct {
	needle []byte         // a text that every matching line contains; nil if none is known
	fold   bool           // ignore the letter case; needle is then in lower case
	re     *regexp.Regexp // nil if every line that contains needle matches
}

func newQuery(in searchCodeInput) (*query, error) {
	if strings.ContainsAny(in.Query, "\n\r") {
		return nil, errors.New("query contains a line break, and lines are searched one by one: search for a text within one line")
	}
	q := &query{fold: !in.Regex && !strings.ContainsFunc(in.Query, unicode.IsUpper)}
	if in.IgnoreCase != nil {
		q.fold = *in.IgnoreCase
	}
	expr := in.Query
	if in.Regex {
		if _, err := syntax.Parse(expr, syntax.Perl); err != nil {
			return nil, regexError(expr, err)
		}
	} else {
		expr = regexp.QuoteMeta(expr)
		switch {
		case !q.fold:
			q.needle = []byte(in.Query)
		case isASCII(in.Query):
			q.needle = []byte(strings.ToLower(in.Query))
		}
		if q.needle != nil && !in.WholeWord {
			return q, nil
		}
	}
	var err error
	if q.re, err = compile(expr, q.fold, in.WholeWord); err != nil {
		return nil, err
	}
	// compile changes the expression for fold and WholeWord; then it has no usable prefix.
	if prefix, _ := q.re.LiteralPrefix(); in.Regex && prefix != "" && !q.fold && !in.WholeWord {
		q.needle = []byte(prefix)
	}
	return q, nil
}

// compile builds the expression for one line. \b knows ASCII words only, so
// compile spells out the ends of a whole word.
func compile(expr string, fold, wholeWord bool) (*regexp.Regexp, error) {
	full := expr
	if wholeWord {
		full = `(?:^|[^\pL\pN_])(?:` + expr + `)(?:[^\pL\pN_]|$)`
	}
	if fold {
		full = "(?i)" + full
	}
	parsed, err := syntax.Parse(full, syntax.Perl)
	if err != nil {
		return nil, regexError(expr, err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, regexError(expr, err)
	}
	if len(program.Inst) > maxProgram {
		return nil, fmt.Errorf("the regular expression %q is too large: use smaller repetition counts", expr)
	}
	re, err := regexp.Compile(full)
	if err != nil {
		return nil, regexError(expr, err)
	}
	return re, nil
}

func regexError(expr string, err error) error {
	reason := err.Error()
	if syntaxErr, ok := errors.AsType[*syntax.Error](err); ok {
		reason = fmt.Sprintf("%s: `%s`", syntaxErr.Code, syntaxErr.Expr)
	}
	return fmt.Errorf("%q is not a regular expression in RE2 syntax (%s): correct it, or leave regex out to search for it as plain text", expr, reason)
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

const (
	// maxPlainLine is the line length above which find checks ctx while it
	// matches.
	maxPlainLine = 64 << 10
	// maxShownRunes is how many characters of a matching line are shown,
	// including the marks where it is cut.
	maxShownRunes = 300
	// shownBefore is how many characters are shown before the match in a cut line.
	shownBefore = 100
)

// matchedLine is a line with a match, without its line end. Its text is valid
// until the next file is read.
type matchedLine struct {
	number int // from 1
	text   []byte
	at     int // the offset of the match in text
}

// each calls found for the matching lines of text, in order. lower is scratch
// space; it grows as needed and is reused for the next file.
func (q *query) each(ctx context.Context, text []byte, lower *[]byte, found func(matchedLine)) error {
	hay := text
	if q.fold && q.needle != nil {
		*lower = appendLower((*lower)[:0], text)
		hay = *lower
	}
	number := 1
	for pos := 0; pos < len(text); {
		if err := ctx.Err(); err != nil {
			return err
		}
		start, at := pos, 0
		if q.needle != nil {
			hit := bytes.Index(hay[pos:], q.needle)
			if hit < 0 {
				return nil
			}
			start = pos + bytes.LastIndexByte(hay[pos:pos+hit], '\n') + 1
			at = pos + hit - start
			number += bytes.Count(hay[pos:start], []byte{'\n'})
		}
		end := len(text)
		if n := bytes.IndexByte(text[start:], '\n'); n >= 0 {
			end = start + n
		}
		line := bytes.TrimSuffix(text[start:end], []byte{'\r'})
		if q.re != nil {
			at = find(ctx, q.re, line)
		}
		if at >= 0 {
			found(matchedLine{number, line, at})
		}
		pos = end + 1
		number++
	}
	return ctx.Err()
}

// find returns the offset of the first match of re in line, or -1.
func find(ctx context.Context, re *regexp.Regexp, line []byte) int {
	var loc []int
	if len(line) <= maxPlainLine {
		loc = re.FindIndex(line)
	} else {
		loc = re.FindReaderIndex(&stoppableReader{ctx: ctx, rest: line})
	}
	if loc == nil {
		return -1
	}
	return loc[0]
}

// stoppableReader reads a line until its end or until ctx is done.
type stoppableReader struct {
	ctx   context.Context
	rest  []byte
	count int
}

func (r *stoppableReader) ReadRune() (rune, int, error) {
	if len(r.rest) == 0 {
		return 0, 0, io.EOF
	}
	if r.count++; r.count%4096 == 0 && r.ctx.Err() != nil {
		return 0, 0, r.ctx.Err()
	}
	c, size := utf8.DecodeRune(r.rest)
	r.rest = r.rest[size:]
	return c, size, nil
}

// appendLower appends src to dst with ASCII letters in lower case. It leaves
// other letters alone, so that offsets stay the same.
func appendLower(dst, src []byte) []byte {
	dst = append(dst, src...)
	for i, c := range dst {
		if 'A' <= c && c <= 'Z' {
			dst[i] = c + 'a' - 'A'
		}
	}
	return dst
}

// display returns the line for a result: the whole line, or a part of it that
// contains the beginning of the match.
func (m matchedLine) display() string {
	if utf8.RuneCount(m.text) <= maxShownRunes {
		return toValidUTF8(m.text)
	}
	const mark = "…"
	text, room, head := m.text, maxShownRunes, ""
	if before := utf8.RuneCount(m.text[:m.at]); before > maxShownRunes-shownBefore {
		text = text[offsetOf(text, before-shownBefore):]
		room, head = room-1, mark
	}
	cut := offsetOf(text, room)
	if cut == len(text) {
		return head + toValidUTF8(text)
	}
	return head + toValidUTF8(text[:offsetOf(text, room-1)]) + mark
}

// offsetOf returns the offset of rune n, or the length of text if it has fewer.
func offsetOf(text []byte, n int) int {
	offset := 0
	for ; n > 0 && offset < len(text); n-- {
		_, size := utf8.DecodeRune(text[offset:])
		offset += size
	}
	return offset
}
