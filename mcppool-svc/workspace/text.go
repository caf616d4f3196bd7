package workspace

import (
	"bytes"
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

// mimeType goes by the content for binary files and by the name for text. It
// does not ask the machine's MIME tables, which differ from one to the next.
func mimeType(name string, head []byte) string {
	if isBinary(head) {
		return http.DetectContentType(head)
	}
	if known := textTypes[strings.ToLower(path.Ext(name))]; known != "" {
		return mime.FormatMediaType(known, map[string]string{"charset": "utf-8"})
	}
	return http.DetectContentType(head)
}

var textTypes = map[string]string{
	".md": "text/markdown", ".markdown": "text/markdown", ".json": "application/json", ".yaml": "application/yaml", ".yml": "application/yaml",
	".toml": "application/toml", ".xml": "application/xml", ".html": "text/html", ".htm": "text/html", ".css": "text/css", ".csv": "text/csv",
	".js": "text/javascript", ".mjs": "text/javascript", ".cjs": "text/javascript", ".svg": "image/svg+xml",
	".go": "text/plain", ".py": "text/plain", ".ts": "text/plain", ".tsx": "text/plain", ".rs": "text/plain", ".c": "text/plain", ".h": "text/plain",
	".java": "text/plain", ".rb": "text/plain", ".sh": "text/plain", ".sql": "text/plain", ".proto": "text/plain", ".txt": "text/plain", ".log": "text/plain",
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
