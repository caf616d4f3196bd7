package docs

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/gateway/internal/request"
	"pawl.dev/gateway/internal/route"
)

func newTable() (*route.Table, error) {
	return route.NewTable(
		executorv1.File_pawl_executor_v1_executor_service_proto.Services().Get(0),
		executorv1.File_pawl_executor_v1_agent_service_proto.Services().Get(0),
		mcppoolv1.File_pawl_mcppool_v1_mcppool_proto.Services().Get(0),
		plannerv1.File_pawl_planner_v1_planner_proto.Services().Get(0))
}

func routes(t *testing.T) []*route.Route {
	t.Helper()
	table, err := newTable()
	if err != nil {
		t.Fatal(err)
	}
	return table.Routes()
}

// served makes the documents once for all tests that only read them.
var served = sync.OnceValue(func() map[string]http.Handler {
	table, err := newTable()
	if err != nil {
		panic(err)
	}
	return New(table.Routes(), "v1.2.3").Handlers()
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

// openAPI is what the tests read of the document.
type openAPI struct {
	OpenAPI    string
	Info       struct{ Version string }
	Servers    []struct{ URL string }
	Security   []map[string][]string
	Paths      map[string]map[string]operationDoc
	Components struct {
		Schemas, Responses, SecuritySchemes map[string]json.RawMessage
	}
}

type operationDoc struct {
	OperationID string
	Parameters  []struct{ Name, In string }
	Responses   map[string]struct {
		Ref     string `json:"$ref"`
		Content map[string]json.RawMessage
	}
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
	for _, ref := range regexp.MustCompile(`"\$ref":"#/components/(\w+)/(\w+)"`).FindAllStringSubmatch(text, -1) {
		in := map[string]map[string]json.RawMessage{"schemas": doc.Components.Schemas, "responses": doc.Components.Responses}[ref[1]]
		if in[ref[2]] == nil {
			t.Errorf("%s refers to nothing", ref[0])
		}
	}
	if found := regexp.MustCompile(`\([A-D]\d+\)|after_seq|request_id`).FindString(text); found != "" {
		t.Errorf("%q is in the document", found)
	}
}

// TestEveryRouteIsDocumented with problems, and with what streams look like.
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
		if op.Responses["default"].Ref != "#/components/responses/Problem" {
			t.Errorf("%s has no problem", op.OperationID)
		}
		checkStream(t, rt, op)
	}
	if len(found) != len(all) {
		t.Errorf("%d operations are documented, %d are served", len(found), len(all))
	}
}

func checkStream(t *testing.T, rt *route.Route, op operationDoc) {
	t.Helper()
	content := op.Responses["200"].Content
	streams := rt.Streams() && !rt.Document()
	if streams != (content["text/event-stream"] != nil && content["application/x-ndjson"] != nil) || streams == (content["application/json"] != nil) {
		t.Errorf("%s: the answer is %v", op.OperationID, content)
	}
	resumable := false
	for _, p := range op.Parameters {
		resumable = resumable || p.Name == "Last-Event-ID" && p.In == "header"
	}
	if want := rt.RPC.Input().Fields().ByName("after_seq") != nil; resumable != want {
		t.Errorf("%s: Last-Event-ID is documented: %t, want %t", op.OperationID, resumable, want)
	}
}

// TestExamplesAreValid decodes each example as the gateway would.
func TestExamplesAreValid(t *testing.T) {
	doc, err := build(generated, overlay, routes(t), "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPage(doc, routes(t))
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]string{}
	for _, g := range p.Groups {
		for _, op := range g.Operations {
			commands[op.ID] = op.Curl
		}
	}
	for _, rt := range routes(t) {
		_, body, _ := strings.Cut(commands[operationID(rt)], "-d '")
		body = strings.TrimSuffix(body, "'")
		if _, err := request.Message(rt, nil, []byte(body), nil); err != nil {
			t.Errorf("%s: %v", commands[operationID(rt)], err)
		}
		if rt.Body != "" && body == "" && rt.RPC.Input().Fields().Len() > len(rt.Variables()) {
			t.Errorf("%s has no example", operationID(rt))
		}
	}
}

func TestCurl(t *testing.T) {
	body := &typeName{Name: "X"}
	tests := map[string]struct {
		op   operation
		body string
		want string
	}{
		"get":    {operation{Method: "GET", Path: "/v1/a/{id}/b"}, "", "curl http://127.0.0.1:7410/v1/a/$ID/b"},
		"delete": {operation{Method: "DELETE", Path: "/v1/a/{mcpId}"}, "", "curl -X DELETE http://127.0.0.1:7410/v1/a/$MCPID"},
		"empty":  {operation{Method: "POST", Path: "/v1/a:b", BodyType: body}, "{}", "curl -X POST http://127.0.0.1:7410/v1/a:b"},
		"stream": {operation{Method: "POST", Path: "/a", Streams: true, BodyType: body}, `{"a": "it's"}`,
			"curl -N http://127.0.0.1:7410/a \\\n  -H 'Accept: text/event-stream' \\\n  -H 'Content-Type: application/json' \\\n  -d '{\"a\": \"it'\\''s\"}'"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := curl(tt.op, tt.body); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
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

// TestPagesStandAlone: they load nothing from anywhere, and their policy lets through just what they hold.
func TestPagesStandAlone(t *testing.T) {
	for _, path := range []string{"/docs", "/"} {
		w := fetch(t, path, http.Header{"Accept": {"text/html,*/*;q=0.8"}})
		html, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			t.Fatalf("%s: %d %v", path, w.Code, w.Header())
		}
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %s", path, policy)
		}
		for _, tag := range []string{"style", "script"} {
			_, rest, _ := strings.Cut(html, "<"+tag+">")
			content, _, _ := strings.Cut(rest, "</"+tag+">")
			if content == "" || !strings.Contains(policy, tag+"-src '"+hash(content)+"'") {
				t.Errorf("%s: the policy does not have the hash of its %s", path, tag)
			}
		}
		outside := regexp.MustCompile(`(?i)\s(src|href|action)="(https?:)?//|<(script|link|iframe|img)[^>]*\ssrc=|\sstyle="|\son[a-z]+="|@import|url\(`)
		if found := outside.FindString(html); found != "" {
			t.Errorf("%s: %q reaches outside or around the policy", path, found)
		}
	}
}

// TestPageShowsEverything: operations by group, parameters, types, and links that lead somewhere.
func TestPageShowsEverything(t *testing.T) {
	html := fetch(t, "/docs", nil).Body.String()
	for _, rt := range routes(t) {
		if !strings.Contains(html, `<article class="operation" id="`+operationID(rt)+`">`) {
			t.Errorf("%s is not on the page", operationID(rt))
		}
	}
	for _, want := range []string{"MCP servers and tools", "afterSeq", "Last-Event-ID", "LANGUAGE_ZH", "curl -N ", "v1.2.3", `id="schema-Problem"`} {
		if !strings.Contains(html, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	for _, link := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(html, -1) {
		if !strings.Contains(html, `id="`+link[1]+`"`) {
			t.Errorf("the link to %s leads nowhere", link[1])
		}
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

func TestMarkup(t *testing.T) {
	if got := inline("a `b<c>` & `d`"); got != "a <code>b&lt;c&gt;</code> &amp; <code>d</code>" {
		t.Errorf("got %s", got)
	}
}
