package openapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/gateway/internal/rest"
	"pawl.dev/gateway/internal/stream"
)

func routes(t *testing.T) []*rest.Route {
	t.Helper()
	h, err := rest.New(rest.Conns{}, nil, 0, false, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h.Routes()
}

// served makes the documents once for all tests that only read them.
var served = sync.OnceValue(func() map[string]http.Handler {
	h, err := rest.New(rest.Conns{}, nil, 0, false, 0, nil)
	if err != nil {
		panic(err)
	}
	return New(h.Routes(), "v1.2.3").Handlers()
})

// fetch gets a document as a client does.
func fetch(t *testing.T, path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header = header
	w := httptest.NewRecorder()
	served()[path].ServeHTTP(w, r)
	return w
}

// openAPI has the parts of the document that the tests read.
type openAPI struct {
	OpenAPI    string
	Info       struct{ Version string }
	Servers    []struct{ URL string }
	Security   []map[string][]string
	Paths      map[string]map[string]operationDoc
	Components struct {
		Schemas, SecuritySchemes, Headers map[string]json.RawMessage
		Responses                         map[string]responseDoc
		Parameters                        map[string]parameterDoc
	}
}

type operationDoc struct {
	OperationID string
	Summary     string
	Description string
	Parameters  []parameterDoc
	Responses   map[string]responseDoc
}

type parameterDoc struct {
	Ref      string `json:"$ref"`
	Name, In string
}

type responseDoc struct {
	Ref     string `json:"$ref"`
	Content map[string]json.RawMessage
}

// components are those of the document by kind and name.
func (d openAPI) components() map[string]bool {
	found := map[string]bool{}
	for name := range d.Components.Schemas {
		found["schemas/"+name] = true
	}
	for name := range d.Components.Headers {
		found["headers/"+name] = true
	}
	for name := range d.Components.Responses {
		found["responses/"+name] = true
	}
	for name := range d.Components.Parameters {
		found["parameters/"+name] = true
	}
	return found
}

func document(t *testing.T) (openAPI, string) {
	t.Helper()
	w := fetch(t, "/openapi.json", nil)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", w.Code, w.Header())
	}
	var doc openAPI
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	return doc, w.Body.String()
}

func TestDocument(t *testing.T) {
	doc, text := document(t)
	if doc.OpenAPI != "3.0.3" || doc.Info.Version != "v1.2.3" || len(doc.Servers) != 1 || doc.Servers[0].URL != "/" {
		t.Errorf("openapi %s, version %s, servers %v", doc.OpenAPI, doc.Info.Version, doc.Servers)
	}
	if diff := cmp.Diff([]map[string][]string{{}, {"bearer": {}}}, doc.Security); diff != "" || doc.Components.SecuritySchemes["bearer"] == nil {
		t.Errorf("security (-want +got):\n%s", diff)
	}
	components := doc.components()
	for _, ref := range regexp.MustCompile(`"\$ref":"#/components/([^"]+)"`).FindAllStringSubmatch(text, -1) {
		if !components[ref[1]] {
			t.Errorf("%s refers to nothing", ref[0])
		}
	}
	if !strings.Contains(strings.ReplaceAll(text, `\n`, " "), "64-bit integers are strings, except the `lastSeq` of a stream's event `end`, which is a number") {
		t.Error("the document does not say how integers are written")
	}
	if found := regexp.MustCompile(`\([A-D]\d+\)|after_seq|request_id`).FindString(text); found != "" {
		t.Errorf("%q is in the document", found)
	}
}

// TestEveryRouteIsDocumented with its problems and the form of its stream.
func TestEveryRouteIsDocumented(t *testing.T) {
	doc, _ := document(t)
	variable := regexp.MustCompile(`\{[^}]*\}`)
	templates := map[string]string{}
	found := map[string]operationDoc{}
	for path, methods := range doc.Paths {
		shape := variable.ReplaceAllString(path, "{}")
		if twin := templates[shape]; twin != "" {
			t.Errorf("%s and %s are one path", path, twin)
		}
		templates[shape] = path
		for method, op := range methods {
			found[strings.ToUpper(method)+" "+shape] = op
		}
	}
	all := routes(t)
	for _, rt := range all {
		op, ok := found[rt.Method+" "+variable.ReplaceAllString(rt.Template, "{}")]
		if !ok || op.OperationID != operationID(rt) {
			t.Errorf("%s %s is not documented", rt.Method, rt.Template)
			continue
		}
		if op.Summary == "" || len(op.Summary) > 150 || strings.HasSuffix(op.Summary, ".") || !strings.HasPrefix(op.Description, op.Summary) {
			t.Errorf("%s has the summary %q", op.OperationID, op.Summary)
		}
		if op.Responses["default"].Ref != "#/components/responses/Problem" {
			t.Errorf("%s has no problem", op.OperationID)
		}
		checkStream(t, doc, rt, op)
	}
	if len(found) != len(all) {
		t.Errorf("%d operations are documented, %d are served", len(found), len(all))
	}
}

func checkStream(t *testing.T, doc openAPI, rt *rest.Route, op operationDoc) {
	t.Helper()
	answer := op.Responses["200"]
	if answer.Ref != "" {
		answer = doc.Components.Responses[strings.TrimPrefix(answer.Ref, "#/components/responses/")]
	}
	content := answer.Content
	streams := rt.Streams() && !stream.IsDocument(rt.RPC)
	if streams != (content["text/event-stream"] != nil && content["application/x-ndjson"] != nil) || streams == (content["application/json"] != nil) {
		t.Errorf("%s: the answer is %v", op.OperationID, content)
	}
	resumable := false
	for _, p := range op.Parameters {
		if p.Ref != "" {
			p = doc.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
		}
		resumable = resumable || p.Name == "Last-Event-ID" && p.In == "header"
	}
	if want := rt.RPC.Input().Fields().ByName("after_seq") != nil; resumable != want {
		t.Errorf("%s: Last-Event-ID is documented: %t, want %t", op.OperationID, resumable, want)
	}
}

// TestExamplesAreValid sends each example to the gateway's handler, which must not refuse the body.
func TestExamplesAreValid(t *testing.T) {
	api, err := rest.New(rest.Conns{Executor: unreachable{}, Pool: unreachable{}, Planner: unreachable{}}, stream.New(stream.Config{Heartbeat: time.Second}), 1<<20, false, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := build(generated, overlay, api.Routes(), "")
	if err != nil {
		t.Fatal(err)
	}
	operations := byID(doc)
	for _, rt := range api.Routes() {
		op := operations[operationID(rt)]
		example := get(op, "requestBody", "content", "application/json", "example")
		if example == nil {
			continue
		}
		var body bytes.Buffer
		if err := toJSON(example, jsontext.NewEncoder(&body)); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		path := strings.NewReplacer("{", "", "}", "").Replace(rt.Template)
		api.ServeHTTP(w, httptest.NewRequest(rt.Method, path, &body))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", operationID(rt), w.Code, w.Body)
		}
	}
}

// unreachable is a connection to a service that is down.
type unreachable struct{}

var errDown = status.Error(codes.Unavailable, "down")

func (unreachable) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errDown
}

func (unreachable) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errDown
}

// TestYAMLIsTheSame document, in other clothes.
func TestYAMLIsTheSame(t *testing.T) {
	var fromYAML, fromJSON any
	if err := yaml.Unmarshal(fetch(t, "/openapi.yaml", nil).Body.Bytes(), &fromYAML); err != nil {
		t.Fatal(err)
	}
	_, text := document(t)
	if err := yaml.Unmarshal([]byte(text), &fromJSON); err != nil { // JSON is YAML
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
		t.Errorf("(-JSON +YAML):\n%s", diff)
	}
}

// TestPagesStandAlone: they load nothing from other hosts, and their policy lets no script run but theirs.
func TestPagesStandAlone(t *testing.T) {
	for path, script := range map[string]string{"/docs": "script-src 'self' '" + hash(docsJS) + "';", "/": ""} {
		w := fetch(t, path, http.Header{"Accept": {"text/html,*/*;q=0.8"}})
		html, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			t.Fatalf("%s: %d %v", path, w.Code, w.Header())
		}
		if !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, script) || strings.Contains(policy, "http") {
			t.Errorf("%s: policy %s", path, policy)
		}
		if script == "" && (strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src")) {
			t.Errorf("%s: policy %s", path, policy)
		}
		outside := regexp.MustCompile(`(?i)\s(src|href|action)="(https?:)?//|\son[a-z]+="|@import|url\(`)
		if found := outside.FindString(html); found != "" {
			t.Errorf("%s: %q reaches outside or around the policy", path, found)
		}
	}
}

// TestViewer: the page's script is there, compressed.
func TestViewer(t *testing.T) {
	if html := fetch(t, "/docs", nil).Body.String(); !strings.Contains(html, `src="/docs/rapidoc.js"`) || !strings.Contains(html, docsJS) {
		t.Errorf("the page does not run the viewer: %s", html)
	}
	w := fetch(t, "/docs/rapidoc.js", nil)
	r, err := gzip.NewReader(w.Body)
	if err != nil || w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("%v: %v", err, w.Header())
	}
	text, err := io.ReadAll(r)
	if err != nil || !strings.Contains(string(text), "rapi-doc") {
		t.Errorf("%v: %d bytes", err, len(text))
	}
}

func TestStartForPrograms(t *testing.T) {
	w := fetch(t, "/", http.Header{"Accept": {"*/*"}})
	var got map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got["version"] != "v1.2.3" || got["docs"] != "/docs" {
		t.Errorf("%v: %s", err, w.Body)
	}
}

func TestUnchangedIsNotSentAgain(t *testing.T) {
	first := fetch(t, "/openapi.json", nil)
	again := fetch(t, "/openapi.json", http.Header{"If-None-Match": {first.Header().Get("ETag")}})
	if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("status %d, %d bytes", again.Code, again.Body.Len())
	}
}
