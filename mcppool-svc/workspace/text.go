package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"
)

// sniffLength is how much of a file tells text from binary: a NUL in it, the
// rule and the length that git uses.
const sniffLength = 8000

func isBinary(head []byte) bool {
	return bytes.IndexByte(head[:min(len(head), sniffLength)], 0) >= 0
}

// sniff reads the beginning of a file.
func sniff(r io.ReaderAt) ([]byte, error) {
	head := make([]byte, sniffLength)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return head[:n], nil
}

// countLines counts as editors do: a last line needs no line end.
func countLines(ctx context.Context, r io.Reader) (int, error) {
	buf := make([]byte, 64<<10)
	lines, last := 0, byte('\n')
	for {
		n, err := r.Read(buf)
		if n > 0 {
			lines += bytes.Count(buf[:n], []byte{'\n'})
			last = buf[n-1] //nolint:gosec // n > 0
		}
		switch {
		case errors.Is(err, io.EOF):
			if last != '\n' {
				lines++
			}
			return lines, nil
		case err != nil:
			return 0, err
		case ctx.Err() != nil:
			return 0, ctx.Err()
		}
	}
}

// mimeType goes by the content for binary files and by the name for text. It
// does not ask the machine's MIME tables, which differ from one to the next.
func mimeType(name string, head []byte) string {
	if isBinary(head) {
		return http.DetectContentType(head)
	}
	if known := textType(strings.ToLower(path.Ext(name))); known != "" {
		return mime.FormatMediaType(known, map[string]string{"charset": "utf-8"})
	}
	return http.DetectContentType(head)
}

func textType(ext string) string {
	switch ext {
	case ".md", ".markdown":
		return "text/markdown"
	case ".json":
		return "application/json"
	case ".yaml", ".yml":
		return "application/yaml"
	case ".toml":
		return "application/toml"
	case ".xml":
		return "application/xml"
	case ".html", ".htm":
		return "text/html"
	case ".css":
		return "text/css"
	case ".csv":
		return "text/csv"
	case ".js", ".mjs", ".cjs":
		return "text/javascript"
	case ".svg":
		return "image/svg+xml"
	case ".go", ".py", ".ts", ".tsx", ".rs", ".c", ".h", ".java", ".rb", ".sh", ".sql", ".proto", ".txt", ".log":
		return "text/plain"
	}
	return ""
}

// cutRunes shortens s to at most limit bytes without splitting a character.
func cutRunes(s []byte, limit int) []byte {
	if len(s) <= limit {
		return s
	}
	for cut := limit; cut > limit-utf8.UTFMax && cut > 0; cut-- {
		if utf8.RuneStart(s[cut]) {
			return s[:cut]
		}
	}
	return s[:limit] // not UTF-8
}

// valid makes text safe for JSON, showing what is not UTF-8 as U+FFFD.
func valid(s []byte) string {
	return strings.ToValidUTF8(string(s), "\uFFFD")
}
