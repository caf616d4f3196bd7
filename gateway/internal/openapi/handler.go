package openapi

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
	"pawl.dev/gateway/internal/rest"
)

var (
	//go:embed openapi/openapi.yaml
	generated []byte
	//go:embed overlay.yaml
	overlay []byte
	//go:embed assets/docs.html
	docsHTML string
	//go:embed assets/docs.js
	docsJS string
	//go:embed assets/index.html
	indexHTML string
	//go:embed assets/page.css
	indexCSS string
	//go:embed rapidoc/rapidoc-min.js.gz
	viewer []byte
)

// Docs serves the documents. They are made at the first request for one of them, because that takes longer than everything else that a
// gateway does to start.
type Docs struct {
	made func() (*documents, error)
}

type documents struct {
	json, yaml, docs, viewer, index, summary resource
}

// page is the data of the templates.
type page struct {
	Version string
	Style   template.CSS
	Script  template.JS
}

// New returns the documents of these routes.
func New(routes []*rest.Route, version string) *Docs {
	return &Docs{made: sync.OnceValues(func() (*documents, error) { return newDocuments(routes, version) })}
}

// newDocuments completes the generated document for the routes and renders the pages.
func newDocuments(routes []*rest.Route, version string) (*documents, error) {
	doc, err := build(generated, overlay, routes, version)
	if err != nil {
		return nil, err
	}
	d := &documents{viewer: newResource("text/javascript; charset=utf-8", closed, viewer)}
	if d.json, d.yaml, err = encode(doc); err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	p := page{Version: text(doc, "info", "version"), Style: template.CSS(indexCSS), Script: template.JS(docsJS)} //nolint:gosec // our own, embedded
	if d.docs, err = render(docsHTML, p, viewerPolicy); err != nil {
		return nil, fmt.Errorf("render the page of the OpenAPI document: %w", err)
	}
	if d.index, err = render(indexHTML, p, "style-src '"+hash(indexCSS)+"'"); err != nil {
		return nil, fmt.Errorf("render the start page: %w", err)
	}
	d.summary, err = summary(p.Version)
	return d, err
}

// Handlers are the documents by path. Each answers GET and HEAD.
func (d *Docs) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"/":                d.serve(start),
		"/docs":            d.serve(func(m *documents, _ *http.Request) resource { return m.docs }),
		"/docs/rapidoc.js": http.HandlerFunc(d.serveViewer),
		"/openapi.json":    d.serve(func(m *documents, _ *http.Request) resource { return m.json }),
		"/openapi.yaml":    d.serve(func(m *documents, _ *http.Request) resource { return m.yaml }),
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

// serveViewer sends the viewer compressed, as every browser accepts it.
func (d *Docs) serveViewer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	d.serve(func(m *documents, _ *http.Request) resource { return m.viewer }).ServeHTTP(w, r)
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

// ServeHTTP answers with the document, or 304 if the client has it.
func (d resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", d.contentType)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", d.etag)
	h.Add("Vary", "Accept") // the start page is two
	h.Set("Content-Security-Policy", d.policy)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.body))
}

// closed is the policy of resources that are not pages.
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

// viewerPolicy lets the page of the document run the viewer and its own script, and call this gateway. The viewer sets styles in its
// templates, which have no hash.
var viewerPolicy = "script-src 'self' '" + hash(docsJS) + "'; style-src 'unsafe-inline'; connect-src 'self'"

// render returns a page whose Content-Security-Policy is policy.
func render(source string, p page, policy string) (resource, error) {
	t, err := template.New("page").Parse(source)
	if err != nil {
		return resource{}, err
	}
	var buf bytes.Buffer
	if err := t.Execute(&buf, p); err != nil {
		return resource{}, err
	}
	policy = "default-src 'none'; " + policy + "; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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
