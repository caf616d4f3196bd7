package openapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the document and the page
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"pawl.dev/gateway/internal/problem"
	"pawl.dev/gateway/internal/rest"
	"pawl.dev/services/strictjson"
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

// Docs serves the documents. It builds them at the first request.
type Docs struct {
	documents func() (map[string]resource, error) // by path; the start page for browsers is at indexPage
}

// indexPage is the key of the start page for browsers, which shares its path with the start page for programs.
const indexPage = "index"

// page is the data of the templates.
type page struct {
	Version string
	Style   template.CSS
	Script  template.JS
}

// New returns the documents for the routes.
func New(routes []*rest.Route, version string) *Docs {
	return &Docs{documents: sync.OnceValues(func() (map[string]resource, error) { return newDocuments(routes, version) })}
}

// newDocuments completes the generated document for the routes and renders the pages.
func newDocuments(routes []*rest.Route, version string) (map[string]resource, error) {
	doc, err := build(generated, overlay, routes, version)
	if err != nil {
		return nil, err
	}
	var asJSON bytes.Buffer
	if err := toJSON(doc, jsontext.NewEncoder(&asJSON)); err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	asYAML, err := yaml.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	p := page{Version: text(doc, "info", "version"), Style: template.CSS(indexCSS), Script: template.JS(docsJS)} //nolint:gosec // our own, embedded
	docs, err := render(docsHTML, p, viewerPolicy)
	if err != nil {
		return nil, fmt.Errorf("render the page of the OpenAPI document: %w", err)
	}
	index, err := render(indexHTML, p, "style-src '"+hash(indexCSS)+"'")
	if err != nil {
		return nil, fmt.Errorf("render the start page: %w", err)
	}
	compressed := newResource("text/javascript; charset=utf-8", closedPolicy, viewer)
	compressed.encoding = "gzip" // which every browser accepts
	return map[string]resource{
		"/": newResource("application/json", closedPolicy, indexJSON(p.Version)), indexPage: index, "/docs": docs, "/docs/rapidoc.js": compressed,
		"/openapi.json": newResource("application/json", closedPolicy, asJSON.Bytes()), "/openapi.yaml": newResource("application/yaml", closedPolicy, asYAML),
	}, nil
}

// Handlers returns the handlers of the documents by path, for GET and HEAD.
func (d *Docs) Handlers() map[string]http.Handler {
	handlers := map[string]http.Handler{}
	for _, path := range []string{"/", "/docs", "/docs/rapidoc.js", "/openapi.json", "/openapi.yaml"} {
		handlers[path] = d.serve(path)
	}
	return handlers
}

func (d *Docs) serve(path string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		documents, err := d.documents()
		if err != nil {
			problem.Write(w, err)
			return
		}
		key := path
		if path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html") {
			key = indexPage
		}
		documents[key].ServeHTTP(w, r)
	})
}

// resource is a document that never changes while the process lives.
type resource struct {
	contentType string
	policy      string // Content-Security-Policy
	encoding    string // Content-Encoding; empty for none
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
	h.Add("Vary", "Accept") // the start page has two forms
	h.Set("Content-Security-Policy", d.policy)
	if d.encoding != "" {
		h.Set("Content-Encoding", d.encoding)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.body))
}

// closedPolicy is the Content-Security-Policy of resources that are not pages.
const closedPolicy = "default-src 'none'; frame-ancestors 'none'"

// viewerPolicy lets the page run the viewer and its own script, and call this gateway. The viewer's templates set inline styles, for
// which there is no hash.
var viewerPolicy = "script-src 'self' '" + hash(docsJS) + "'; style-src 'unsafe-inline'; connect-src 'self'"

// render returns a page. policy is the page's own part of its Content-Security-Policy.
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

// indexJSON returns the start page for programs.
func indexJSON(version string) []byte {
	return fmt.Appendf(nil, `{"name": "pawl", "version": %s, "docs": "/docs", "openapi": "/openapi.json", "health": "/healthz", "ready": "/readyz", "tasks": "/v1/tasks"}`+"\n",
		strictjson.Quote(version))
}
