package mcptest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fields override the fields of an object; nil removes a field. In strings, SELF stands for the server's address.
type Fields map[string]any

// apply changes the fields of an object and returns it.
func (f Fields) apply(object map[string]any, self string) map[string]any {
	for name, value := range f {
		text, isText := value.(string)
		switch {
		case value == nil:
			delete(object, name)
		case isText:
			object[name] = strings.ReplaceAll(text, "SELF", self)
		default:
			object[name] = value
		}
	}
	return object
}

// Reply is a response of an endpoint. Its status is 200 if it is 0.
type Reply struct {
	Status         int
	Location, Body string
}

// Switches configure how an authorization server behaves or misbehaves. The zero value follows the specification.
type Switches struct {
	Path        string           // of the issuer
	MetadataAt  string           // path of the metadata; RFC 8414's if empty, none if "-"
	Metadata    Fields           // of the server
	Answer      Fields           // parameters of the answer to an authorization request
	Client      Fields           // of the response to a registration
	Token       Fields           // of the response with a token
	Replies     map[string]Reply // what endpoints, such as "/token", always respond
	KeepRefresh bool             // refresh tokens are not replaced
	ClientKey   func(assertion string) bool
}

// Authority is a running authorization server.
type Authority struct {
	URL string // its issuer, unless the metadata have another

	t testing.TB

	mu       sync.Mutex // guards the fields below
	Switches Switches
	hold     *hold
	clients  map[string]string     // secrets by id
	codes    map[string]url.Values // authorization requests by code
	access   map[string]*Token
	refresh  map[string]*Token
	Requests []url.Values // of the token endpoint
	Asked    []url.Values // of the authorization endpoint
	Register []map[string]any
	Revoked  []string
	Paths    []string // of all requests
}

// Token is a token that was issued.
type Token struct {
	Client, Resource string
	Scopes           []string
	revoked          bool
}

// NewAuthority starts an authorization server that stops with the test.
func NewAuthority(t testing.TB, sw Switches) *Authority {
	t.Helper()
	a := &Authority{
		t: t, Switches: sw, clients: map[string]string{"configured": "configured-secret"}, codes: map[string]url.Values{},
		access: map[string]*Token{}, refresh: map[string]*Token{},
	}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	a.URL = srv.URL + sw.Path
	return a
}

// With calls do, which may change the switches and read the recorded requests.
func (a *Authority) With(do func(*Authority)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	do(a)
}

// Hold makes token requests wait until release is called; arrived gets a value for each.
func (a *Authority) Hold() (arrived <-chan struct{}, release func()) {
	h := &hold{arrived: make(chan struct{}, 100), released: make(chan struct{})}
	a.With(func(a *Authority) { a.hold = h })
	return h.arrived, sync.OnceFunc(func() { close(h.released) })
}

type hold struct{ arrived, released chan struct{} }

// Grants counts the token requests of a grant type.
func (a *Authority) Grants(kind string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, r := range a.Requests {
		if r.Get("grant_type") == kind {
			n++
		}
	}
	return n
}

// Revoke makes all access tokens invalid.
func (a *Authority) Revoke() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.access {
		t.revoked = true
	}
}

// Check returns the token with this text; nil if it is not valid.
func (a *Authority) Check(token string) *Token {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.access[token]; t != nil && !t.revoked {
		return t
	}
	return nil
}

// Browse acts as the person's browser: it opens the address, consents, and returns the parameters of the redirect.
func (a *Authority) Browse(address string) url.Values {
	a.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	u, err := resp.Location()
	if err != nil {
		a.t.Fatalf("the authorization server answered %s without a redirect", resp.Status)
	}
	return u.Query()
}

// ServeHTTP implements http.Handler.
func (a *Authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	hold := a.hold
	a.mu.Unlock()
	if hold != nil && strings.HasSuffix(r.URL.Path, "/token") {
		hold.arrived <- struct{}{}
		<-hold.released
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Paths = append(a.Paths, r.Method+" "+r.URL.Path)
	at := a.Switches.MetadataAt
	if at == "" {
		at = "/.well-known/oauth-authorization-server" + a.Switches.Path
	}
	endpoint := strings.TrimPrefix(r.URL.Path, a.Switches.Path)
	switch serve := map[string]http.HandlerFunc{"/authorize": a.authorize, "/token": a.token, "/register": a.register, "/revoke": a.revoke}[endpoint]; {
	case serve != nil:
		serve(w, r)
	case r.URL.Path == at:
		answer(w, http.StatusOK, a.metadata())
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// replied writes the fixed reply of an endpoint, and reports whether it has one.
func (a *Authority) replied(w http.ResponseWriter, endpoint string) bool {
	reply, fixed := a.Switches.Replies[endpoint]
	if !fixed {
		return false
	}
	if reply.Location != "" {
		w.Header().Set("Location", reply.Location)
	}
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}
	_, _ = io.WriteString(w, reply.Body)
	return true
}

func (a *Authority) metadata() map[string]any {
	return a.Switches.Metadata.apply(map[string]any{
		"issuer": a.URL, "authorization_endpoint": a.URL + "/authorize?keep=this", "token_endpoint": a.URL + "/token",
		"revocation_endpoint": a.URL + "/revoke", "registration_endpoint": a.URL + "/register", "client_id_metadata_document_supported": false,
		"authorization_response_iss_parameter_supported": true, "code_challenge_methods_supported": []string{"plain", "S256"},
	}, a.URL)
}

// takesDocuments reports whether the server takes Client ID Metadata Documents.
func (a *Authority) takesDocuments() bool {
	return a.metadata()["client_id_metadata_document_supported"] == true
}

func (a *Authority) revoke(_ http.ResponseWriter, r *http.Request) {
	a.Revoked = append(a.Revoked, r.FormValue("token"))
}

func (a *Authority) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a.Asked = append(a.Asked, q)
	back, err := url.Parse(q.Get("redirect_uri"))
	_, known := a.clients[q.Get("client_id")]
	document := a.takesDocuments() && strings.HasPrefix(q.Get("client_id"), "https://")
	if err != nil || !known && !document {
		http.Error(w, "unknown client, or invalid redirect_uri", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	a.codes[code] = q
	values := back.Query()
	for name, value := range a.Switches.Answer.apply(map[string]any{"state": q.Get("state"), "code": code, "iss": a.metadata()["issuer"]}, a.URL) {
		values.Set(name, value.(string))
	}
	back.RawQuery = values.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound) //nolint:gosec // where a test wants it
}

func (a *Authority) register(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	a.Register = append(a.Register, body)
	if a.replied(w, "/register") {
		return
	}
	id, secret := fmt.Sprintf("client-%d", len(a.Register)), rand.Text()
	a.clients[id] = secret
	answer(w, http.StatusCreated, a.Switches.Client.apply(map[string]any{
		"client_id": id, "client_secret": secret, "client_secret_expires_at": 0,
	}, a.URL))
}

func (a *Authority) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	form := r.PostForm
	if id, secret, ok := r.BasicAuth(); ok {
		form.Set("basic", id+":"+secret)
	}
	a.Requests = append(a.Requests, form)
	if a.replied(w, "/token") {
		return
	}
	fault := "invalid_client"
	var t *Token
	if a.authenticated(form) {
		t, fault = a.grant(form)
	}
	if fault != "" {
		answer(w, http.StatusBadRequest, map[string]string{"error": fault})
		return
	}
	access, refresh := "access-"+rand.Text(), "refresh-"+rand.Text()
	a.access[access] = t
	response := map[string]any{"access_token": access, "token_type": "bearer", "expires_in": time.Hour.Seconds(), "scope": strings.Join(t.Scopes, " ")}
	if form.Get("grant_type") == "authorization_code" || !a.Switches.KeepRefresh {
		a.refresh[refresh], response["refresh_token"] = t, refresh
	}
	answer(w, http.StatusOK, a.Switches.Token.apply(response, a.URL))
}

// authenticated reports whether a token request authenticates its client, by one of the metadata's methods if these name some.
func (a *Authority) authenticated(form url.Values) bool {
	id, secret, method := form.Get("client_id"), form.Get("client_secret"), "client_secret_post"
	if basic := form.Get("basic"); basic != "" {
		method = "client_secret_basic"
		rawID, rawSecret, _ := strings.Cut(basic, ":")
		id, _ = url.QueryUnescape(rawID)
		secret, _ = url.QueryUnescape(rawSecret)
	} else if form.Get("client_assertion") != "" {
		return a.Switches.ClientKey != nil && a.Switches.ClientKey(form.Get("client_assertion"))
	} else if secret == "" {
		method = "none"
	}
	form.Set("client_id", id)
	if methods, some := a.metadata()["token_endpoint_auth_methods_supported"].([]string); some && !slices.Contains(methods, method) {
		return false
	}
	want, known := a.clients[id]
	return method == "none" && (a.takesDocuments() || known) || known && secret == want
}

// grant returns the token that a request asks for, or the code of an error.
func (a *Authority) grant(form url.Values) (t *Token, fault string) {
	t = &Token{Client: form.Get("client_id"), Resource: form.Get("resource"), Scopes: strings.Fields(form.Get("scope"))}
	switch form.Get("grant_type") {
	case "authorization_code":
		q := a.codes[form.Get("code")]
		delete(a.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if q == nil || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
			q.Get("redirect_uri") != form.Get("redirect_uri") || q.Get("client_id") != t.Client || q.Get("resource") != t.Resource {
			return nil, "invalid_grant"
		}
		t.Scopes = strings.Fields(q.Get("scope"))
	case "refresh_token":
		old := a.refresh[form.Get("refresh_token")]
		if old == nil || old.Client != t.Client || old.Resource != t.Resource {
			return nil, "invalid_grant"
		}
		if !a.Switches.KeepRefresh {
			delete(a.refresh, form.Get("refresh_token"))
		}
		t.Scopes = old.Scopes
	case "client_credentials":
	default:
		return nil, "unsupported_grant_type"
	}
	return t, ""
}
