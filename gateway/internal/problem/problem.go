package problem

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// TypeBase is the beginning of the type of a problem; the reason follows.
const TypeBase = "https://pawl.dev/problems/"

// Problem is an error as REST clients see it.
type Problem struct {
	Type              string            `json:"type"`
	Title             string            `json:"title"`
	Status            int               `json:"status"`
	Detail            string            `json:"detail,omitempty"`
	Reason            string            `json:"reason"`
	Metadata          map[string]string `json:"metadata,omitempty"`
	Violations        []Violation       `json:"violations,omitempty"`
	RetryAfterSeconds int               `json:"retryAfterSeconds,omitempty"`
}

// Violation describes what is wrong with one field of a request, or with the whole request if Field is empty.
type Violation struct {
	Field       string `json:"field,omitempty"`
	Description string `json:"description"`
}

// New returns the problem of a request for which no RPC was called. Its title is the text of the HTTP status.
func New(status int, reason commonv1.ErrorReason, format string, args ...any) Problem {
	name := errs.ReasonName(reason)
	return Problem{
		Type:   TypeBase + name,
		Title:  http.StatusText(status),
		Status: status,
		Detail: fmt.Sprintf(format, args...),
		Reason: name,
	}
}

// From returns the problem of an error, which may be a gRPC status with details.
func From(err error) Problem {
	e := errs.From(err)
	name := errs.ReasonName(e.Reason)
	p := Problem{
		Type:     TypeBase + name,
		Title:    title(name),
		Status:   status(e),
		Detail:   e.Message,
		Reason:   name,
		Metadata: e.Metadata,
	}
	for _, v := range e.Violations {
		violation := Violation{Field: JSONPath(v.Field), Description: v.Description}
		if v.Field == "" { // the description of a rule of the whole request has proto names
			violation.Description = snakeCase.ReplaceAllStringFunc(v.Description, JSONPath)
			p.Detail = strings.ReplaceAll(p.Detail, v.Description, violation.Description)
		} else {
			p.Detail = strings.ReplaceAll(p.Detail, v.Field, violation.Field)
		}
		p.Violations = append(p.Violations, violation)
	}
	if e.RetryAfter > 0 {
		p.RetryAfterSeconds = int(math.Ceil(e.RetryAfter.Seconds()))
	}
	return p
}

// MethodNotAllowed answers a request with a method that its path does not have.
func MethodNotAllowed(w http.ResponseWriter, r *http.Request, allow ...string) {
	w.Header().Set("Allow", strings.Join(allow, ", "))
	New(http.StatusMethodNotAllowed, commonv1.ErrorReason_ERROR_REASON_ROUTE_NOT_FOUND,
		"%s does not take %s; it takes %s", r.URL.Path, r.Method, strings.Join(allow, " and ")).Write(w)
}

// Write answers with the problem of an error.
func Write(w http.ResponseWriter, err error) { From(err).Write(w) }

// Write answers with the problem.
func (p Problem) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		h.Set("WWW-Authenticate", `Bearer realm="pawl"`)
	}
	if p.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfterSeconds))
	}
	data := append(p.JSON(), '\n')
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(data) //nolint:gosec // it is JSON and says so; and the client may be gone
}

// JSON returns the problem as one line of JSON.
func (p Problem) JSON() []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil { // strings, numbers and a map of strings always encode
		return []byte(`{"title":"Internal Server Error","status":500,"reason":"UNKNOWN_ERROR"}`)
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}

// title returns the reason in words: TASK_NOT_FOUND becomes `Task not found`.
func title(reason string) string {
	words := strings.Split(strings.ToLower(reason), "_")
	for i, w := range words {
		if w == "mcp" || w == "id" {
			words[i] = strings.ToUpper(w)
		}
	}
	s := strings.Join(words, " ")
	return strings.ToUpper(s[:1]) + s[1:]
}

var snakeCase = regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`)

// JSONPath turns a field path of proto names into the JSON names that REST clients use: mcp_ids[0] becomes mcpIds[0].
// A key or an index in brackets stays as it is.
func JSONPath(path string) string {
	var b strings.Builder
	upper, brackets := false, 0
	for _, c := range path {
		switch {
		case c == '[':
			brackets++
		case c == ']':
			brackets--
		case c == '_' && brackets == 0:
			upper = true
			continue
		}
		if upper {
			c, upper = unicode.ToUpper(c), false
		}
		b.WriteRune(c)
	}
	return b.String()
}
