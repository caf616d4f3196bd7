package oauth

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// maxServers is how many authorization servers an MCP server may name.
const maxServers = 20

// loginInfo describes how to log in to an MCP server.
type loginInfo struct {
	resource  string   // the identifier for which tokens are requested (RFC 8707)
	scopes    []string // from the server's metadata
	authority authority
}

// authority is an authorization server: its metadata (RFC 8414, OpenID Connect Discovery).
type authority struct {
	Issuer    string   `json:"issuer"`
	Authorize string   `json:"authorization_endpoint"` // empty: people cannot log in, or not safely
	Token     string   `json:"token_endpoint"`
	Register  string   `json:"registration_endpoint"`                 // empty: the server registers no clients
	Revoke    string   `json:"revocation_endpoint"`                   // empty: the server revokes no tokens
	Methods   []string `json:"token_endpoint_auth_methods_supported"` // empty: client_secret_basic
	PKCE      []string `json:"code_challenge_methods_supported"`
	Scopes    []string `json:"scopes_supported"`
	Documents bool     `json:"client_id_metadata_document_supported"`
	SendsIss  bool     `json:"authorization_response_iss_parameter_supported"` // authorization responses have `iss` (RFC 9207)

	guessed bool // the server has no metadata: the endpoints are the defaults of 2025-03-26
}

// resourceMetadata is the metadata of an MCP server as a protected resource (RFC 9728).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// discover finds out how to log in to an MCP server. It takes the authorization server prefer if the MCP server names it, else the first that
// the MCP server names.
func discover(ctx context.Context, w *web, server *url.URL, c challenge, prefer string) (*loginInfo, error) {
	if _, err := parseLoginURL("the MCP server's address", server.String()); err != nil {
		return nil, err
	}
	meta, err := findResourceMetadata(ctx, w, server, c)
	if err != nil {
		return nil, err
	}
	if meta == nil {
		a, err := legacyAuthority(ctx, w, server)
		return &loginInfo{resource: resourceID(server), authority: a}, err
	}
	if err := checkResource(meta.Resource, server); err != nil {
		return nil, err
	}
	if len(meta.Servers) == 0 || len(meta.Servers) > maxServers {
		return nil, refused("the MCP server's metadata name %d authorization servers; 1 to %d are allowed", len(meta.Servers), maxServers)
	}
	issuer := meta.Servers[0]
	if slices.Contains(meta.Servers, prefer) {
		issuer = prefer
	}
	a, err := findAuthority(ctx, w, issuer)
	return &loginInfo{resource: meta.Resource, scopes: scopesOf(strings.Join(meta.Scopes, " ")), authority: a}, err
}

// findResourceMetadata reads the metadata of the MCP server at the address in its challenge, or else at the well-known addresses. It returns nil
// if there are none, as in MCP before 2025-06-18.
func findResourceMetadata(ctx context.Context, w *web, server *url.URL, c challenge) (*resourceMetadata, error) {
	if c.metadata != "" {
		meta, a, err := getJSON[resourceMetadata](ctx, w, c.metadata)
		if err == nil && meta == nil {
			err = unexpected(c.metadata, a)
		}
		return meta, err
	}
	const name = "oauth-protected-resource"
	for _, place := range slices.Compact([]string{wellKnown(server, name), wellKnown(origin(server), name)}) {
		meta, _, err := getJSON[resourceMetadata](ctx, w, place)
		if err != nil || meta != nil && meta.Resource != "" {
			return meta, err
		}
	}
	return nil, nil
}

// getJSON reads a JSON object from an address. If the response is not one, it returns nil and the response.
func getJSON[T any](ctx context.Context, w *web, address string) (*T, *httpResponse, error) {
	a, err := w.get(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	if a.status >= http.StatusInternalServerError || a.status == http.StatusTooManyRequests {
		return nil, a, unexpected(address, a)
	}
	var to T
	if a.status != http.StatusOK || !a.read(&to) {
		return nil, a, nil
	}
	return &to, a, nil
}

// metadataURLs returns the addresses where an issuer's metadata may be, in the order that MCP sets.
func metadataURLs(issuer *url.URL) []string {
	list := []string{wellKnown(issuer, "oauth-authorization-server"), wellKnown(issuer, "openid-configuration")}
	if strings.Trim(issuer.Path, "/") != "" {
		list = append(list, issuer.JoinPath("/.well-known/openid-configuration").String())
	}
	return list
}

// findAuthority returns the authorization server of an issuer. Its metadata must exist and name the issuer.
func findAuthority(ctx context.Context, w *web, issuer string) (authority, error) {
	a, found, err := readMetadata(ctx, w, issuer)
	if err == nil && !found {
		err = refused("the authorization server %.200q has no metadata that can be read", issuer)
	}
	return a, err
}

func readMetadata(ctx context.Context, w *web, issuer string) (authority, bool, error) {
	u, err := parseLoginURL("the MCP server's authorization server", issuer)
	if err != nil {
		return authority{}, false, err
	}
	if u.RawQuery != "" {
		return authority{}, false, refused("the MCP server's authorization server is %.200q, which has a query", issuer)
	}
	for _, place := range metadataURLs(u) {
		a, _, err := getJSON[authority](ctx, w, place)
		switch {
		case err != nil:
			return authority{}, false, err
		case a == nil || a.Issuer == "":
			continue
		case !sameIssuer(a.Issuer, issuer):
			return authority{}, false, refused("the metadata at %s are of the authorization server %.200q, not of %.200q", displayURL(place), a.Issuer, issuer)
		}
		return *a, true, a.check()
	}
	return authority{}, false, nil
}

// sameIssuer compares two issuers as text, but ignores the slash of an empty path, which some libraries add.
func sameIssuer(a, b string) bool {
	if a == b {
		return true
	}
	u, err := url.Parse(a)
	return err == nil && strings.Trim(u.Path, "/") == "" && strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// legacyAuthority returns the authorization server of an MCP server of 2025-03-26: the same host, perhaps without metadata.
func legacyAuthority(ctx context.Context, w *web, server *url.URL) (authority, error) {
	base := origin(server)
	a, found, err := readMetadata(ctx, w, base.String())
	if err != nil || found {
		return a, err
	}
	at := func(path string) string { return base.JoinPath(path).String() }
	return authority{Issuer: base.String(), Authorize: at("/authorize"), Token: at("/token"), Register: at("/register"), guessed: true}, nil
}

// check returns an error for endpoints that may not be used. It clears Authorize if the server does not support PKCE with S256.
func (a *authority) check() error {
	for _, endpoint := range [][2]string{
		{"authorization_endpoint", a.Authorize}, {"token_endpoint", a.Token}, {"registration_endpoint", a.Register}, {"revocation_endpoint", a.Revoke},
	} {
		if endpoint[1] == "" {
			continue
		}
		if _, err := parseLoginURL("the "+endpoint[0]+" of "+a.Issuer, endpoint[1]); err != nil {
			return err
		}
	}
	if a.Token == "" {
		return refused("the authorization server %.200q has no token_endpoint", a.Issuer)
	}
	if !slices.Contains(a.PKCE, "S256") {
		a.Authorize = ""
	}
	return nil
}
