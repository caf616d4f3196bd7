package guard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pawl.dev/gateway/internal/guard"
)

type header map[string]string

// TestGuard: a page from another origin gets nowhere (issue 2, shown by 6).
func TestGuard(t *testing.T) {
	const local, named = "127.0.0.1:7410", "pawl.example.com"
	allowed := guard.Config{AllowHosts: []string{named, "10.0.0.5:7410", "[fd00::1]"}, AllowOrigins: []string{"https://console.example.com"}}
	anyHost := guard.Config{AnyHost: true}
	json := header{"Content-Type": "application/json"}
	tests := map[string]struct {
		cfg          guard.Config
		method, host string
		header       header
		body         string
		want         int
	}{
		"curl":                             {host: local, want: 200},
		"localhost":                        {host: "localhost:7410", want: 200},
		"localhost without a port":         {host: "LOCALHOST", want: 200},
		"another loopback address":         {host: "127.8.9.1", want: 200},
		"IPv6 loopback":                    {host: "[::1]:7410", want: 200},
		"DNS rebinding":                    {host: "evil.example:7410", want: 403},
		"a name that begins right":         {host: "127.0.0.1.evil.example", want: 403},
		"a name that ends right":           {host: "evil.localhost.example", want: 403},
		"no host":                          {host: "", want: 403},
		"the network's address":            {host: "10.0.0.5:7410", want: 403},
		"a name that was allowed":          {cfg: allowed, host: named, want: 200},
		"the same with a port":             {cfg: allowed, host: named + ":8443", want: 200},
		"an allowed host and port":         {cfg: allowed, host: "10.0.0.5:7410", want: 200},
		"an allowed host on another port":  {cfg: allowed, host: "10.0.0.5:80", want: 403},
		"an allowed IPv6 address":          {cfg: allowed, host: "[fd00::1]:7410", want: 200},
		"any host with keys":               {cfg: anyHost, host: "whatever.example", want: 200},
		"keys and allowed hosts":           {cfg: guard.Config{AnyHost: true, AllowHosts: []string{named}}, host: "whatever.example", want: 403},
		"own page":                         {host: local, header: header{"Origin": "http://127.0.0.1:7410", "Sec-Fetch-Site": "same-origin"}, want: 200},
		"own page behind TLS":              {cfg: allowed, host: named, header: header{"Origin": "https://pawl.example.com:443"}, want: 200},
		"page of another site":             {host: local, header: header{"Origin": "https://evil.example"}, want: 403},
		"page of another port":             {host: local, header: header{"Origin": "http://127.0.0.1:3000"}, want: 403},
		"page of another name of ours":     {host: local, header: header{"Origin": "http://localhost:7410"}, want: 403},
		"sandboxed frame":                  {host: local, header: header{"Origin": "null"}, want: 403},
		"image on another site":            {host: local, header: header{"Sec-Fetch-Site": "cross-site"}, want: 403},
		"typed into the address bar":       {host: local, header: header{"Sec-Fetch-Site": "none"}, want: 200},
		"page of another site, with keys":  {cfg: anyHost, host: named, header: header{"Origin": "https://evil.example"}, want: 403},
		"allowed page":                     {cfg: allowed, host: local, header: header{"Origin": "https://console.example.com", "Sec-Fetch-Site": "cross-site"}, want: 200},
		"not quite the allowed page":       {cfg: allowed, host: local, header: header{"Origin": "https://console.example.com.evil.example"}, want: 403},
		"allowed page, another scheme":     {cfg: allowed, host: local, header: header{"Origin": "http://console.example.com"}, want: 403},
		"a precondition":                   {method: "PATCH", host: local, header: header{"Content-Type": "application/json", "If-Match": `"1"`}, body: "{}", want: 400},
		"JSON":                             {method: "POST", host: local, header: json, body: "{}", want: 200},
		"JSON with a charset":              {method: "POST", host: local, header: header{"Content-Type": "application/json; charset=UTF-8"}, body: "{}", want: 200},
		"JSON in another charset":          {method: "POST", host: local, header: header{"Content-Type": "application/json; charset=utf-16"}, body: "{}", want: 415},
		"a form's text":                    {method: "POST", host: local, header: header{"Content-Type": "text/plain"}, body: "{}", want: 415},
		"a form":                           {method: "POST", host: local, header: header{"Content-Type": "application/x-www-form-urlencoded"}, body: "a=b", want: 415},
		"an empty form":                    {method: "POST", host: local, header: header{"Content-Type": "application/x-www-form-urlencoded"}, want: 415},
		"a type that only begins right":    {method: "POST", host: local, header: header{"Content-Type": "application/json, text/plain"}, body: "{}", want: 415},
		"a body without a type":            {method: "POST", host: local, body: "{}", want: 415},
		"neither body nor type":            {method: "POST", host: local, want: 200},
		"a body of a DELETE":               {method: "DELETE", host: local, header: header{"Content-Type": "text/plain"}, body: "{}", want: 415},
		"preflight of an allowed page":     {cfg: allowed, method: "OPTIONS", host: local, header: header{"Origin": "https://console.example.com", "Access-Control-Request-Method": "POST"}, want: 204},
		"preflight of another page":        {cfg: allowed, method: "OPTIONS", host: local, header: header{"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}, want: 403},
		"preflight under a name not ours":  {cfg: allowed, method: "OPTIONS", host: "evil.example", header: header{"Origin": "https://console.example.com", "Access-Control-Request-Method": "POST"}, want: 403},
		"OPTIONS that is not a preflight":  {host: local, method: "OPTIONS", want: 200},
		"two origins, one of them allowed": {cfg: allowed, host: local, header: header{"Origin": "https://console.example.com, https://evil.example"}, want: 403},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, err := guard.New(tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			reached := false
			h := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, newRequest(tt.method, tt.host, tt.header, tt.body))
			if w.Code != tt.want || reached != (tt.want == 200) {
				t.Errorf("status %d, reached %t; want %d: %s", w.Code, reached, tt.want, w.Body)
			}
			if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("refused with %s", w.Header().Get("Content-Type"))
			}
			checkCORS(t, w.Header(), tt.header["Origin"], w.Code < 300 && tt.header["Origin"] == "https://console.example.com")
		})
	}
}

func newRequest(method, host string, h header, body string) *http.Request {
	if method == "" {
		method = "GET"
	}
	var r *http.Request
	if body == "" {
		r = httptest.NewRequest(method, "/v1/mcpServers", nil)
	} else {
		r = httptest.NewRequest(method, "/v1/mcpServers", strings.NewReader(body))
	}
	r.Host = host
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return r
}

// checkCORS: only the pages of allowed origins may read responses, and caches must keep answers apart.
func checkCORS(t *testing.T, h http.Header, origin string, allowed bool) {
	t.Helper()
	want, readers := "", "same-origin"
	if allowed {
		want, readers = origin, "cross-origin"
	}
	if got := h.Get("Access-Control-Allow-Origin"); got != want {
		t.Errorf("Access-Control-Allow-Origin %q, want %q", got, want)
	}
	if h.Get("Access-Control-Allow-Credentials") != "" {
		t.Error("credentials are allowed")
	}
	for name, want := range map[string]string{
		"Vary": "Origin", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": readers,
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s %q, want %q", name, got, want)
		}
	}
}

func TestPreflight(t *testing.T) {
	g, err := guard.New(guard.Config{AllowOrigins: []string{"https://Console.example.com/"}})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	g.Wrap(http.NotFoundHandler()).ServeHTTP(w, newRequest("OPTIONS", "localhost", header{
		"Origin": "https://console.example.com", "Access-Control-Request-Method": "PATCH", "Access-Control-Request-Private-Network": "true",
	}, ""))
	for name, want := range map[string]string{
		"Access-Control-Allow-Methods": "GET, POST, PATCH, DELETE",
		"Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, Mcp-Session-Id, Pawl-Mcp-Ids, Traceparent, Tracestate, " +
			"OpenAI-Organization, OpenAI-Project, X-Stainless-Arch, X-Stainless-Helper-Method, X-Stainless-Lang, X-Stainless-Os, X-Stainless-Package-Version, X-Stainless-Retry-Count, " +
			"X-Stainless-Runtime, X-Stainless-Runtime-Version, X-Stainless-Timeout",
		"Access-Control-Expose-Headers":        "Mcp-Session-Id, Pawl-Task-Id, Retry-After, WWW-Authenticate, X-Should-Retry",
		"Access-Control-Allow-Private-Network": "true",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s %q, want %q", name, got, want)
		}
	}
}

// TestRefusalSaysWhatToDo names the flag that lets the caller in.
func TestRefusalSaysWhatToDo(t *testing.T) {
	g, err := guard.New(guard.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]*http.Request{
		"--allow-host pawl.lan":             newRequest("GET", "pawl.lan", nil, ""),
		"--allow-origin https://a.example":  newRequest("GET", "localhost", header{"Origin": "https://a.example"}, ""),
		"Content-Type: application/json":    newRequest("POST", "localhost", header{"Content-Type": "text/plain"}, "x"),
		"--allow-origin and the origin of ": newRequest("GET", "localhost", header{"Sec-Fetch-Site": "cross-site"}, ""),
	} {
		w := httptest.NewRecorder()
		g.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("answer %s, want one with %q", w.Body, want)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []guard.Config{
		{AllowHosts: []string{""}}, {AllowHosts: []string{"*"}}, {AllowHosts: []string{"https://a.example"}}, {AllowHosts: []string{"a b"}},
		{AllowOrigins: []string{"*"}}, {AllowOrigins: []string{"null"}}, {AllowOrigins: []string{"a.example"}},
		{AllowOrigins: []string{"https://a.example/path"}}, {AllowOrigins: []string{"https://*.example"}}, {AllowOrigins: []string{"ftp://a.example"}},
	} {
		if _, err := guard.New(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}
