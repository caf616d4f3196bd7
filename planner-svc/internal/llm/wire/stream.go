package wire

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode"

	"pawl.dev/planner-svc/internal/llm"
)

// opening looks at the first bytes of an answer that is to be a stream of events. A page, or an answer in one piece, would read as a stream
// without events, which looks like one that broke off.
type opening struct {
	kind string // the content type, without its parameters
	seen bool   // something came that may be a stream
}

// newOpening looks at an answer; what is no success has a text of its own.
func newOpening(r *http.Response) *opening {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	return &opening{kind: kind, seen: r.StatusCode < 200 || r.StatusCode > 299}
}

// look says what is wrong with the bytes that came, if they are the first ones. Not all servers name the type of a stream, but no line of one
// begins as JSON and pages do.
func (o *opening) look(p []byte) error {
	text := bytes.TrimSpace(p)
	if o.seen || len(text) == 0 {
		return nil
	}
	o.seen = true
	if !bytes.ContainsAny(text[:1], "{[<") {
		return nil
	}
	kind := "something of no type"
	if o.kind != "" {
		kind = fmt.Sprintf("%.60s", o.kind)
	}
	return &llm.Error{
		Class:   llm.Broken,
		Message: fmt.Sprintf("%s came instead of a stream of events: %s", kind, excerpt(text)),
		Advice:  "what answers there is no such model, or does not stream; an operator has to look at `baseUrl` in the file of --models (mostly it ends with /v1)",
	}
}

// excerpt is the beginning of a text on one line, without what a terminal obeys.
func excerpt(text []byte) string {
	const most = 120
	shown := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(string(text[:min(len(text), 4*most)]), ""), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if runes := []rune(shown); len(runes) > most {
		return string(runes[:most]) + " …"
	}
	return shown
}
