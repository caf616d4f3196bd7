package oauth

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// maxServers bounds how many authorization servers an MCP server can name.
const maxServers = 20

// site describes how to log in to an MCP server.
type site struct {
	resource  string   // what tokens are for (RFC 8707)
	scopes    []string // what the server says that it needs
	authority authority
}

// authority is an authorization server: its metadata (RFC 8414, OpenID Connect Discovery).
type authority struct {
	Issuer    string   `json:"issuer"`
	Authorize string   `json:"authorization_endpoint"` // empty: people cannot log in safely
	Token     string   `json:"token_endpoint"`
	Register  string   `json:"registration_endpoint"`                 // empty: it registers no clients
	Revoke    string   `json:"revocation_endpoint"`                   // empty: it revokes nothing
	Methods   []string `json:"token_endpoint_auth_methods_supported"` // empty: not said
	PKCE      []string `json:"code_challenge_methods_supported"`
	Scopes    []string `json:"scopes_supported"`
	Documents bool     `json:"client_id_metadata_document_supported"`
	SendsIss  bool     `json:"authorization_response_iss_parameter_supported"` // in what browsers bring back (RFC 9207)

	guessed bool // it has no metadata: its endpoints are those of 2025-03-26
}

// protected are the metadata of a protected resource (RFC 9728).
type protected struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// discover finds out how to log in to an MCP server. Of several authorization servers it takes prefer if that is
// among them, else the first.
func discover(ctx context.Context, w *web, server *url.URL, c challenge, prefer string) (*site, error) {
	if _, err := parsePlace("the MCP server's address", server.String()); err != nil {
		return nil, err
	}
	meta, err := findProtected(ctx, w, server, c)
	if err != nil {
		return nil, err
	}
	if meta == nil {
		a, err := original(ctx, w, server)
		return &site{resource: canonical(server), authority: a}, err
	}
	if err := covers(meta.Resource, server); err != nil {
		return nil, err
	}
	if len(meta.Servers) == 0 || len(meta.Servers) > maxServers {
		return nil, refused("the MCP server's metadata name %d authorization servers; it takes 1 to %d", len(meta.Servers), maxServers)
	}
	issuer := meta.Servers[0]
	if slices.Contains(meta.Servers, prefer) {
		issuer = prefer
	}
	a, err := findAuthority(ctx, w, issuer)
	return &site{resource: meta.Resource, scopes: scopesOf(strings.Join(meta.Scopes, " ")), authority: a}, err
}

// findProtected reads the metadata of the MCP server: where its challenge says, else at the well-known places. Nil if
// there are none, as before 2025-06-18.
func findProtected(ctx context.Context, w *web, server *url.URL, c challenge) (*protected, error) {
	if c.metadata != "" {
		meta, a, err := getJSON[protected](ctx, w, c.metadata)
		if err == nil && meta == nil {
			err = unexpected(c.metadata, a)
		}
		return meta, err
	}
	const name = "oauth-protected-resource"
	for _, place := range slices.Compact([]string{wellKnown(server, name), wellKnown(origin(server), name)}) {
		meta, _, err := getJSON[protected](ctx, w, place)
		if err != nil || meta != nil && meta.Resource != "" {
			return meta, err
		}
	}
	return nil, nil
}

// getJSON reads an object; nil if there is none at that address.
func getJSON[T any](ctx context.Context, w *web, address string) (*T, *answer, error) {
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

// metadataPlaces are where an issuer's metadata can be, in the order of MCP.
func metadataPlaces(issuer *url.URL) []string {
	list := []string{wellKnown(issuer, "oauth-authorization-server"), wellKnown(issuer, "openid-configuration")}
	if strings.Trim(issuer.Path, "/") != "" {
		list = append(list, issuer.JoinPath("/.well-known/openid-configuration").String())
	}
	return list
}

// findAuthority reads the metadata of an authorization server, which must be its own.
func findAuthority(ctx context.Context, w *web, issuer string) (authority, error) {
	a, found, err := lookUp(ctx, w, issuer)
	if err == nil && !found {
		err = refused("the authorization server %.200q has no metadata that can be read", issuer)
	}
	return a, err
}

func lookUp(ctx context.Context, w *web, issuer string) (authority, bool, error) {
	u, err := parsePlace("the MCP server's authorization server", issuer)
	if err != nil {
		return authority{}, false, err
	}
	if u.RawQuery != "" {
		return authority{}, false, refused("the MCP server's authorization server is %.200q, which has a query", issuer)
	}
	for _, place := range metadataPlaces(u) {
		a, _, err := getJSON[authority](ctx, w, place)
		switch {
		case err != nil:
			return authority{}, false, err
		case a == nil || a.Issuer == "":
			continue
		case !sameIssuer(a.Issuer, issuer):
			return authority{}, false, refused("the metadata at %s are of the authorization server %.200q, not of %.200q", shown(place), a.Issuer, issuer)
		}
		return *a, true, a.check()
	}
	return authority{}, false, nil
}

// sameIssuer compares as text. Alone the slash of an empty path does not count: some libraries add it to each address in
// the metadata of MCP servers, and both forms name the same documents.
func sameIssuer(a, b string) bool {
	if a == b {
		return true
	}
	u, err := url.Parse(a)
	return err == nil && strings.Trim(u.Path, "/") == "" && strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// original is the authorization server of an MCP server of 2025-03-26: the same host, perhaps without metadata.
func original(ctx context.Context, w *web, server *url.URL) (authority, error) {
	base := origin(server)
	a, found, err := lookUp(ctx, w, base.String())
	if err != nil || found {
		return a, err
	}
	at := func(path string) string { return base.JoinPath(path).String() }
	return authority{Issuer: base.String(), Authorize: at("/authorize"), Token: at("/token"), Register: at("/register"), guessed: true}, nil
}

// check checks the metadata.
func (a *authority) check() error {
	for _, endpoint := range [][2]string{
		{"authorization_endpoint", a.Authorize}, {"token_endpoint", a.Token}, {"registration_endpoint", a.Register}, {"revocation_endpoint", a.Revoke},
	} {
		if endpoint[1] == "" {
			continue
		}
		if _, err := parsePlace("the "+endpoint[0]+" of "+a.Issuer, endpoint[1]); err != nil {
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
