package mcptest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Switches configure how an authorization server behaves or misbehaves. The zero value follows the specification.
type Switches struct {
	Path         string // of the issuer
	MetadataAt   string // path of the metadata; RFC 8414's if empty, none if "-"
	Issuer       string // in the metadata, instead of its own
	NoPKCE       bool
	NoRegister   bool
	RegisterFail int      // HTTP status of registrations; 0: they work
	Secretless   bool     // registered clients get no secret
	Methods      []string // of client authentication; absent in the metadata if nil
	Documents    bool     // takes Client ID Metadata Documents
	Scopes       []string // in the metadata
	HideIss      bool     // the metadata do not announce iss
	Iss          string   // in answers, instead of its own; "-": none
	AnswerError  string   // in answers, instead of a code
	Grant        []string // the scopes that it grants, whatever the request
	SilentScope  bool     // token responses have no scope
	Life         time.Duration
	NoExpiry     bool
	NoRefresh    bool
	KeepRefresh  bool   // refresh tokens are not replaced
	TokenType    string // instead of Bearer
	TokenStatus  int    // the token endpoint responds with this status
	TokenTo      string // the token endpoint redirects to this address
	TokenError   string // the token endpoint responds with this error
	TokenGarbage string // the token endpoint responds with this body
	ClientKey    func(assertion string) bool
}

// Authority is a running authorization server.
type Authority struct {
	URL string // its issuer, unless Switches.Issuer is set

	t    testing.TB
	base string

	mu       sync.Mutex
	sw       Switches
	clients  map[string]string     // secrets by id
	codes    map[string]url.Values // authorization requests by code
	access   map[string]*Token
	refresh  map[string]*Token
	Requests []url.Values // of the token endpoint
	Asked    []url.Values // of the authorization endpoint
	Register []map[string]any
	Revoked  []string
	Paths    []string // of all requests
	hold     *hold
}

// Token is a token that was issued.
type Token struct {
	Client, Resource string
	Scopes           []string
	Expiry           time.Time
	revoked          bool
}

// NewAuthority starts an authorization server that stops with the test.
func NewAuthority(t testing.TB, sw Switches) *Authority {
	t.Helper()
	a := &Authority{
		t: t, sw: sw, clients: map[string]string{"configured": "configured-secret"}, codes: map[string]url.Values{},
		access: map[string]*Token{}, refresh: map[string]*Token{},
	}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	a.base, a.URL = srv.URL, srv.URL+sw.Path
	return a
}

// Set changes the switches.
func (a *Authority) Set(change func(*Switches)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.sw)
}

// Hold makes token requests wait until release is called; arrived is told of each.
func (a *Authority) Hold() (arrived <-chan struct{}, release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := &hold{arrived: make(chan struct{}, 100), released: make(chan struct{})}
	a.hold = h
	return h.arrived, sync.OnceFunc(func() { close(h.released) })
}

type hold struct{ arrived, released chan struct{} }

// Look calls look with the recorded requests.
func (a *Authority) Look(look func(*Authority)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	look(a)
}

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
	t := a.access[token]
	if t == nil || t.revoked {
		return nil
	}
	return t
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
	at := a.sw.MetadataAt
	if at == "" {
		at = "/.well-known/oauth-authorization-server" + a.sw.Path
	}
	switch strings.TrimPrefix(r.URL.Path, a.sw.Path) {
	case "/authorize":
		a.authorize(w, r)
		return
	case "/token":
		a.token(w, r)
		return
	case "/register":
		a.register(w, r)
		return
	case "/revoke":
		_ = r.ParseForm()
		a.Revoked = append(a.Revoked, r.Form.Get("token"))
		return
	}
	if r.URL.Path != at {
		http.NotFound(w, r)
		return
	}
	answer(w, http.StatusOK, a.metadata())
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (a *Authority) metadata() map[string]any {
	m := map[string]any{
		"issuer": a.issuer(), "authorization_endpoint": a.URL + "/authorize?keep=this", "token_endpoint": a.URL + "/token",
		"revocation_endpoint": a.URL + "/revoke", "client_id_metadata_document_supported": a.sw.Documents,
		"authorization_response_iss_parameter_supported": !a.sw.HideIss,
	}
	if !a.sw.NoPKCE {
		m["code_challenge_methods_supported"] = []string{"plain", "S256"}
	}
	if !a.sw.NoRegister {
		m["registration_endpoint"] = a.URL + "/register"
	}
	if a.sw.Methods != nil {
		m["token_endpoint_auth_methods_supported"] = a.sw.Methods
	}
	if a.sw.Scopes != nil {
		m["scopes_supported"] = a.sw.Scopes
	}
	return m
}

func (a *Authority) issuer() string {
	if a.sw.Issuer != "" {
		return a.sw.Issuer
	}
	return a.URL
}

func (a *Authority) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a.Asked = append(a.Asked, q)
	back, err := url.Parse(q.Get("redirect_uri"))
	_, known := a.clients[q.Get("client_id")]
	document := a.sw.Documents && strings.HasPrefix(q.Get("client_id"), "https://")
	if err != nil || !known && !document {
		http.Error(w, "who are you, and where do you want to go?", http.StatusBadRequest)
		return
	}
	values := back.Query()
	values.Set("state", q.Get("state"))
	if a.sw.AnswerError != "" {
		values.Set("error", a.sw.AnswerError)
		values.Set("error_description", "so <it> is")
	} else {
		code := rand.Text()
		a.codes[code] = q
		values.Set("code", code)
	}
	switch a.sw.Iss {
	case "":
		values.Set("iss", a.issuer())
	case "-":
	default:
		values.Set("iss", a.sw.Iss)
	}
	back.RawQuery = values.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound) //nolint:gosec // where a test wants it
}

func (a *Authority) register(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	a.Register = append(a.Register, body)
	switch {
	case a.sw.NoRegister:
		http.NotFound(w, r)
	case a.sw.RegisterFail != 0:
		answer(w, a.sw.RegisterFail, map[string]string{"error": "invalid_redirect_uri", "error_description": "not <there>"})
	default:
		id, secret := fmt.Sprintf("client-%d", len(a.Register)), rand.Text()
		got := map[string]any{"client_id": id}
		if a.sw.Secretless {
			secret = ""
		} else {
			got["client_secret"], got["client_secret_expires_at"] = secret, 0
		}
		a.clients[id] = secret
		answer(w, http.StatusCreated, got)
	}
}

func (a *Authority) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	form := r.PostForm
	if id, secret, ok := r.BasicAuth(); ok {
		form.Set("basic", id+":"+secret)
	}
	a.Requests = append(a.Requests, form)
	refuse := func(code string) { answer(w, http.StatusBadRequest, map[string]string{"error": code}) }
	switch {
	case a.sw.TokenTo != "":
		w.Header().Set("Location", a.sw.TokenTo)
		w.WriteHeader(http.StatusTemporaryRedirect)
	case a.sw.TokenStatus != 0:
		w.WriteHeader(a.sw.TokenStatus)
	case a.sw.TokenError != "":
		refuse(a.sw.TokenError)
	case a.sw.TokenGarbage != "":
		_, _ = w.Write([]byte(a.sw.TokenGarbage))
	case !a.authenticated(form):
		refuse("invalid_client")
	default:
		a.give(w, form, refuse)
	}
}

// authenticated reports whether a token request authenticates its client, by one of Switches.Methods if those are set.
func (a *Authority) authenticated(form url.Values) bool {
	id, secret, method := form.Get("client_id"), form.Get("client_secret"), "client_secret_post"
	if basic := form.Get("basic"); basic != "" {
		method = "client_secret_basic"
		rawID, rawSecret, _ := strings.Cut(basic, ":")
		id, _ = url.QueryUnescape(rawID)
		secret, _ = url.QueryUnescape(rawSecret)
	} else if form.Get("client_assertion") != "" {
		return a.sw.ClientKey != nil && a.sw.ClientKey(form.Get("client_assertion"))
	} else if secret == "" {
		method = "none"
	}
	form.Set("client_id", id)
	if a.sw.Methods != nil && !slices.Contains(a.sw.Methods, method) {
		return false
	}
	want, known := a.clients[id]
	return method == "none" && (a.sw.Documents || known) || known && secret == want
}

func (a *Authority) give(w http.ResponseWriter, form url.Values, refuse func(string)) {
	t := &Token{Client: form.Get("client_id"), Resource: form.Get("resource"), Scopes: strings.Fields(form.Get("scope"))}
	switch form.Get("grant_type") {
	case "authorization_code":
		q := a.codes[form.Get("code")]
		delete(a.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if q == nil || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
			q.Get("redirect_uri") != form.Get("redirect_uri") || q.Get("client_id") != t.Client || q.Get("resource") != t.Resource {
			refuse("invalid_grant")
			return
		}
		t.Scopes = strings.Fields(q.Get("scope"))
	case "refresh_token":
		old := a.refresh[form.Get("refresh_token")]
		if old == nil || old.Client != t.Client || old.Resource != t.Resource {
			refuse("invalid_grant")
			return
		}
		if !a.sw.KeepRefresh {
			delete(a.refresh, form.Get("refresh_token"))
		}
		t.Scopes = old.Scopes
	case "client_credentials":
	default:
		refuse("unsupported_grant_type")
		return
	}
	if a.sw.Grant != nil {
		t.Scopes = a.sw.Grant
	}
	answer(w, http.StatusOK, a.issue(t, form.Get("grant_type")))
}

func (a *Authority) issue(t *Token, grant string) map[string]any {
	access := "access-" + rand.Text()
	life := a.sw.Life
	if life == 0 {
		life = time.Hour
	}
	a.access[access] = t
	kind := a.sw.TokenType
	if kind == "" {
		kind = "bearer"
	}
	out := map[string]any{"access_token": access, "token_type": kind}
	if !a.sw.NoExpiry {
		out["expires_in"] = life.Seconds()
	}
	if !a.sw.SilentScope {
		out["scope"] = strings.Join(t.Scopes, " ")
	}
	if !a.sw.NoRefresh && (grant == "authorization_code" || !a.sw.KeepRefresh) {
		refresh := "refresh-" + rand.Text()
		a.refresh[refresh] = t
		out["refresh_token"] = refresh
	}
	return out
}
