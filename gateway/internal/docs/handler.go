package docs

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the document and the page
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"pawl.dev/gateway/internal/problem"
	"pawl.dev/gateway/internal/route"
)

var (
	//go:embed openapi/openapi.yaml
	generated []byte
	//go:embed overlay.yaml
	overlay []byte
	//go:embed assets/docs.html
	docsHTML string
	//go:embed assets/index.html
	indexHTML string
	//go:embed assets/page.css
	style string
	//go:embed assets/docs.js
	script string
)

// Docs serves the documents. They are made at the first request for one of them: it takes longer than all else that a
// gateway does to start.
type Docs struct {
	made func() (*documents, error)
}

// documents are all that there are.
type documents struct {
	json, yaml, docs, index, summary resource
}

// New makes the documents of these routes.
func New(routes []*route.Route, version string) *Docs {
	return &Docs{made: sync.OnceValues(func() (*documents, error) { return newDocuments(routes, version) })}
}

// newDocuments completes the generated document for the routes and renders the pages.
func newDocuments(routes []*route.Route, version string) (*documents, error) {
	doc, err := build(generated, overlay, routes, version)
	if err != nil {
		return nil, err
	}
	p, err := newPage(doc, routes)
	if err != nil {
		return nil, err
	}
	p.Style, p.Script = template.CSS(style), template.JS(script) //nolint:gosec // our own, embedded
	d := &documents{}
	if d.json, d.yaml, err = encode(doc); err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	if d.docs, err = render(docsHTML, p); err != nil {
		return nil, fmt.Errorf("render the page of the OpenAPI document: %w", err)
	}
	if d.index, err = render(indexHTML, p); err != nil {
		return nil, fmt.Errorf("render the start page: %w", err)
	}
	d.summary, err = summary(p.Version)
	return d, err
}

// Handlers are the documents by path. Each answers GET and HEAD.
func (d *Docs) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"/":             d.serve(start),
		"/docs":         d.serve(func(m *documents, _ *http.Request) resource { return m.docs }),
		"/openapi.json": d.serve(func(m *documents, _ *http.Request) resource { return m.json }),
		"/openapi.yaml": d.serve(func(m *documents, _ *http.Request) resource { return m.yaml }),
	}
}

func (d *Docs) serve(choose func(*documents, *http.Request) resource) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made, err := d.made()
		if err != nil {
			problem.Write(w, err)
			return
		}
		choose(made, r).ServeHTTP(w, r)
	})
}

// start is a page for browsers and a summary for programs.
func start(m *documents, r *http.Request) resource {
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		return m.index
	}
	return m.summary
}

// resource is a document that never changes while the process lives.
type resource struct {
	contentType string
	policy      string // Content-Security-Policy
	etag        string
	body        []byte
}

func newResource(contentType, policy string, body []byte) resource {
	sum := sha256.Sum256(body)
	return resource{contentType: contentType, policy: policy, etag: `"` + hex.EncodeToString(sum[:8]) + `"`, body: body}
}

// ServeHTTP answers with the document, or 304 where the client has it.
func (d resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", d.contentType)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", d.etag)
	h.Add("Vary", "Accept") // the start page is two
	h.Set("Content-Security-Policy", d.policy)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.body))
}

// closed is the policy of what is no page.
const closed = "default-src 'none'; frame-ancestors 'none'"

func encode(doc *yaml.Node) (asJSON, asYAML resource, err error) {
	var buf bytes.Buffer
	if err := toJSON(doc, &buf); err != nil {
		return resource{}, resource{}, err
	}
	text, err := yaml.Marshal(doc)
	if err != nil {
		return resource{}, resource{}, err
	}
	return newResource("application/json", closed, buf.Bytes()), newResource("application/yaml", closed, text), nil
}

// render makes a page whose policy allows nothing but its own style and script, by their hashes.
func render(source string, p page) (resource, error) {
	t, err := template.New("page").Parse(source)
	if err != nil {
		return resource{}, err
	}
	var buf bytes.Buffer
	if err := t.Execute(&buf, p); err != nil {
		return resource{}, err
	}
	policy := fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		hash(string(p.Style)), hash(string(p.Script)))
	return newResource("text/html; charset=utf-8", policy, buf.Bytes()), nil
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// summary is the start page for programs.
func summary(version string) (resource, error) {
	body, err := json.MarshalIndent(map[string]string{
		"name": "pawl", "version": version,
		"docs": "/docs", "openapi": "/openapi.json", "health": "/healthz", "ready": "/readyz", "tasks": "/v1/tasks",
	}, "", "  ")
	if err != nil {
		return resource{}, fmt.Errorf("write the summary: %w", err)
	}
	return newResource("application/json", closed, append(body, '\n')), nil
}
