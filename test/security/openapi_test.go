package security

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// schema is the part of an OpenAPI schema that requests are generated from.
type schema struct {
	Ref                  string             `json:"$ref"`
	Type                 string             `json:"type"`
	Format               string             `json:"format"`
	Pattern              string             `json:"pattern"`
	Enum                 []string           `json:"enum"`
	Properties           map[string]*schema `json:"properties"`
	Items                *schema            `json:"items"`
	AdditionalProperties json.RawMessage    `json:"additionalProperties"`
	AllOf                []*schema          `json:"allOf"`
	OneOf                []*schema          `json:"oneOf"`
	AnyOf                []*schema          `json:"anyOf"`
}

// operation is an operation of the OpenAPI document.
type operation struct {
	method, path string
	Parameters   []struct {
		Name, In string
		Schema   *schema
	}
	RequestBody struct {
		Content map[string]struct{ Schema *schema }
	}
}

// document is the OpenAPI document.
type document struct {
	operations []*operation
	schemas    map[string]*schema
}

func readDocument(raw []byte) (*document, error) {
	var d struct {
		Paths      map[string]map[string]*operation
		Components struct{ Schemas map[string]*schema }
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	doc := &document{schemas: d.Components.Schemas}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			op := d.Paths[path][method]
			op.method, op.path = strings.ToUpper(method), path
			doc.operations = append(doc.operations, op)
		}
	}
	return doc, nil
}

// idPool has ids that answers named, so that later requests meet objects.
type idPool struct {
	except []string // ids that requests must not name
	mu     sync.Mutex
	ids    []string // guarded by mu
}

const maxIDs = 200

func (p *idPool) add(id string) {
	if slices.Contains(p.except, id) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ids) < maxIDs {
		p.ids = append(p.ids, id)
	} else {
		p.ids[rand.IntN(maxIDs)] = id
	}
}

func (p *idPool) pick(r *rand.Rand) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return pick(r, p.ids)
}

// fuzzer makes one request.
type fuzzer struct {
	*rand.Rand
	doc    *document
	ids    *idPool
	tasks  *idPool
	folder string  // the only folder that requests name
	wild   float64 // the share of values that do not fit their schema
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (f *fuzzer) chance(p float64) bool { return f.Float64() < p }

var strangeTexts = []string{
	"", " ", "a", "hello", "0", "-1", "null", "true", "日本語", "é", "\u0000", "\u202e", "\xff\xfe", "a\xc3", "a b", "a:b", "a/b", "..", "%", "%zz", "&=;#?", "${env:HOME}",
	"${file:/none}", "{}", "[", `"`, `\`, "9007199254740993", "1e999", "00000000-0000-7000-8000-000000000000", "2026-01-02T03:04:05Z", "99999-01-01T00:00:00Z", "5s", "-5s", "1e9s",
	"999999999999999s", "*", "goal,agent.id", "ACTION_ACCEPT", "\r\nX: y", "<script>", "https://mcp.invalid/", "AAAA", "====",
}

// namedTexts has values of fields that reach far into the services, and those that must stay harmless.
func (f *fuzzer) namedTexts(name string) []string {
	switch name {
	case "command", "commands":
		return []string{"true", "pawl-no-such-program"}
	case "root", "cwd", "roots":
		return []string{f.folder, f.folder + "/none"}
	case "path":
		return []string{f.folder + "/effects"}
	case "url":
		return []string{"http://127.0.0.1:9/mcp", "https://[::1]:9/", "http://u:p@127.0.0.1:9/", "ftp://x", "http://x y"}
	case "id", "mcpId", "mcpServerId", "mcpIds", "agentId", "mcp_server.id", "agent.id", "mcp_id", "callId", "callIds", "waitId", "toolId", "sessionId", "ids":
		return []string{"t", "workspace", "none", "t/echo", f.ids.pick(f.Rand), f.ids.pick(f.Rand), f.ids.pick(f.Rand)}
	case "name":
		return []string{"echo", "add", "slow", "fail", "none", "workspace"}
	case "goal":
		return []string{"say hello", "echo: hi", "use t/echo with text hi", "list the files"}
	case "playbook":
		return []string{"steps: [{tool: t/echo, input: {text: x}}]", "steps: [{tool: t/none}]", "steps: [", "a: &a [*a]", "steps: [{tool: t/slow, input: {steps: 2}}]", "inputs: {x: {type: string}}\nsteps: []"}
	case "inputJson", "contentJson", "inputsJson", "outputJson", "outputSchemaJson", "inputSchemaJson":
		return []string{`{"text":"x"}`, `{`, `[]`, `null`, `{"a":1e400}`, `{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"text":"\ud800"}`}
	case "updateMask":
		return []string{"displayName", "display_name", "*", "http.url", "stdio", "none", "toolPolicies.x", "agent.id", ","}
	case "requestHash", "definitionHash", "expectedDefinitionHash":
		return []string{strings.Repeat("0", 64), strings.Repeat("g", 64)}
	case "role", "roles":
		return []string{"ROLE_USER"}
	}
	return nil
}

// numeric matches the names of 64-bit integers, which the document describes as texts.
var numeric = regexp.MustCompile(`NanoUsd|okens|^epoch$|[sS]eq$|Revision$|Bytes$`)

// text returns a text for a field.
func (f *fuzzer) text(name string, s *schema) string {
	named := f.namedTexts(name)
	switch {
	case len(named) > 0 && (!f.chance(f.wild) || name == "command" || name == "commands" || name == "root" || name == "cwd" || name == "path" || name == "url"):
		return pick(f.Rand, named)
	case f.chance(f.wild / 4):
		return strings.Repeat(pick(f.Rand, []string{"x", "日", "a/", "\n", "["}), f.IntN(3000))
	case len(s.Enum) > 0 && !f.chance(f.wild):
		return pick(f.Rand, s.Enum)
	case s.Format == "date-time" && !f.chance(f.wild):
		return "2026-01-02T03:04:05Z"
	case numeric.MatchString(name) && !f.chance(f.wild):
		return fmt.Sprint(f.IntN(20))
	case strings.Contains(s.Pattern, "s$") && !f.chance(f.wild): // a duration
		return pick(f.Rand, []string{"1s", "0.5s", "60s"})
	case s.Format == "bytes" && !f.chance(f.wild):
		return "AAAA"
	}
	if text := pick(f.Rand, strangeTexts); f.wild > 0 || utf8.ValidString(text) {
		return text
	}
	return "x"
}

// quote makes JSON of a text and leaves invalid UTF-8 as it is.
func quote(s string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`, "\r", `\r`, "\u0000", `\u0000`).Replace(s) + `"`
}

func (f *fuzzer) number() string {
	return pick(f.Rand, []string{"0", "1", "2", "-1", "50", "1000", "1001", "2147483647", "2147483648", "9223372036854775807", "18446744073709551616", "-9223372036854775809", "1.5", "1e3", "1e30", "1e999", "-0", `"7"`, `"NaN"`})
}

const maxDepth = 6

// json returns a value for a schema as JSON; mostly one that fits.
func (f *fuzzer) json(name string, s *schema, depth int) string {
	if f.chance(f.wild) {
		return pick(f.Rand, []string{"null", "true", "{}", "[]", "[[]]", `"x"`, "7", "-1", f.number(), strings.Repeat("[", 200) + strings.Repeat("]", 200), `{"a":{"a":{"a":1}}}`, `"\ud800"`, "tru", ""})
	}
	for s != nil && (s.Ref != "" || len(s.AllOf) > 0) {
		if s.Ref == "" {
			s = s.AllOf[0]
			continue
		}
		s = f.doc.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	if s != nil && len(s.OneOf)+len(s.AnyOf) > 0 {
		return f.json(name, pick(f.Rand, append(slices.Clone(s.OneOf), s.AnyOf...)), depth)
	}
	if s == nil || s.Type == "" {
		return pick(f.Rand, []string{"null", "1", `{"text":"x"}`, `[1,{"a":null}]`})
	}
	switch s.Type {
	case "object":
		return f.object(s, depth)
	case "array":
		var items []string
		for range f.IntN(3) {
			if depth < maxDepth {
				items = append(items, f.json(name, s.Items, depth+1))
			}
		}
		return "[" + strings.Join(items, ",") + "]"
	case "boolean":
		return pick(f.Rand, []string{"true", "false"})
	case "integer", "number":
		if f.chance(f.wild) {
			return f.number()
		}
		return fmt.Sprint(f.IntN(60))
	}
	return quote(f.text(name, s))
}

// alternatives are fields of which a message has at most one.
var alternatives = [][]string{
	{"stdio", "http", "builtin"}, {"approve", "reject", "params", "outcome", "unpause"}, {"input", "inputJson"}, {"content", "contentJson"},
	{"output", "outputJson"}, {"prompt", "uriTemplate"}, {"retry", "skip"}, {"goal", "playbook"},
}

func (f *fuzzer) object(s *schema, depth int) string {
	var members, left []string
	for _, names := range alternatives {
		if s.Properties[names[0]] != nil && !f.chance(f.wild) {
			keep := pick(f.Rand, names)
			left = append(left, slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == keep })...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(left, name) && depth < maxDepth && f.chance(0.3+0.5/float64(depth+1)) {
			members = append(members, quote(name)+":"+f.json(name, s.Properties[name], depth+1))
		}
	}
	if len(s.AdditionalProperties) > 0 && f.chance(0.5) {
		var values schema
		if json.Unmarshal(s.AdditionalProperties, &values) != nil { // it is true or false
			values = schema{}
		}
		members = append(members, quote(pick(f.Rand, []string{"text", "a", "*", "", "echo", "Authorization", "steps"}))+":"+f.json("", &values, depth+1))
	}
	if f.chance(f.wild) {
		members = append(members, `"unknown":1`, `"goal":"twice"`)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// request makes a request of a random operation.
func (f *fuzzer) request(base string) (*http.Request, error) {
	op := pick(f.Rand, f.doc.operations)
	target, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	path, query := op.path, url.Values{}
	for _, p := range op.Parameters {
		value := f.text(p.Name, &schema{})
		if strings.HasPrefix(path, "/v1/tasks/") && p.In == "path" && !f.chance(f.wild) {
			value = f.tasks.pick(f.Rand)
		}
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", value)
		case p.In == "query" && f.chance(0.4):
			if p.Schema != nil && p.Schema.Type != "string" && !f.chance(f.wild) {
				value = strings.Trim(f.json(p.Name, p.Schema, 0), `"[]`)
			} else if p.Schema != nil {
				value = f.text(p.Name, p.Schema)
			}
			query.Add(p.Name, value)
		}
	}
	if f.chance(f.wild) {
		query.Add(pick(f.Rand, strangeTexts), pick(f.Rand, strangeTexts))
	}
	if f.chance(f.wild / 2) {
		path += pick(f.Rand, []string{"/", ":cancel", "/x", "%2f", "\xff", "//", "/../.."})
	}
	target.Path, target.RawQuery = path, query.Encode()
	if f.chance(f.wild / 4) {
		target.RawQuery = pick(f.Rand, []string{"%zz", "a=%ff", "&&&", "a;b", "pageSize=1&pageSize=2", "=", "input[a]=1", "context[%ff]=x"})
	}
	method := op.method
	if f.chance(f.wild / 4) {
		method = pick(f.Rand, []string{"PUT", "HEAD", "OPTIONS", "TRACE", "PATCH", "DELETE", "BREW"})
	}
	req, err := http.NewRequest(method, target.String(), strings.NewReader(f.body(op)))
	if err != nil {
		return nil, err
	}
	f.headers(req)
	return req, nil
}

// body returns the body of a request; empty if the operation has none.
func (f *fuzzer) body(op *operation) string {
	content, ok := op.RequestBody.Content["application/json"]
	if !ok && !f.chance(f.wild/4) {
		return ""
	}
	body := f.json("", content.Schema, 0)
	if f.chance(f.wild) && body != "" {
		at := f.IntN(len(body))
		body = pick(f.Rand, []string{body[:at], body[at:], body[:at] + "\xff" + body[at:], body + body, body[:at] + "\x00" + body[at:], "\ufeff" + body})
	}
	return body
}

// headers sets headers that clients send, and ones that they should not.
func (f *fuzzer) headers(req *http.Request) {
	req.Header.Set("Content-Type", "application/json")
	for name, values := range map[string][]string{
		"Content-Type":           {"text/plain", "application/json; charset=latin1", "application/grpc", "", "multipart/form-data"},
		"Accept":                 {"text/event-stream", "application/x-ndjson", "text/html", "*/*;q=x", "\xff"},
		"Last-Event-ID":          {"1", "-1", "x", "99999999999999999999"},
		"Traceparent":            {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x", "00-é"},
		"Tracestate":             {"a=b", "é"},
		"X-Http-Method-Override": {"DELETE"},
		"Grpc-Timeout":           {"1n", "x"}, "Grpc-Metadata-Authorization": {"x"}, "X-Pawl-On-Behalf-Of": {"ann", "%zz"},
		"Accept-Encoding": {"gzip", "br;q=0"}, "If-None-Match": {`"x"`, "*"}, "Expect": {"100-continue"}, "Origin": {"null", "https://evil.example"},
	} {
		if f.chance(f.wild/4) || name == "Accept" && f.chance(0.1) {
			req.Header.Set(name, pick(f.Rand, values))
		}
	}
}
