package registry

import "slices"

// Grant is how the pool gets tokens for a server. Stored by name.
type Grant string

// The grants.
const (
	GrantLogin             Grant = ""                   // each user logs in, where the server asks for it
	GrantClientCredentials Grant = "client_credentials" // the pool does, for everybody
)

// ParseGrant reads a name; false if it is none. GrantLogin is named too.
func ParseGrant(name string) (Grant, bool) {
	switch name {
	case "", "authorization_code":
		return GrantLogin, true
	case string(GrantClientCredentials):
		return GrantClientCredentials, true
	}
	return GrantLogin, false
}

// OAuth says how the pool logs in to an HTTP server.
type OAuth struct {
	Grant    Grant  `json:"grant,omitempty"`
	ClientID string `json:"client_id,omitempty"` // empty: the pool registers itself
	// ClientSecret may be a private key in PEM, to sign with, and may refer to the pool's environment or files.
	ClientSecret string   `json:"client_secret,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
}

func (o *OAuth) clone() *OAuth {
	if o == nil {
		return nil
	}
	c := *o
	c.Scopes = slices.Clone(o.Scopes)
	return &c
}

func (o *OAuth) validate() error {
	if o == nil {
		return nil
	}
	switch {
	case o.Grant != GrantLogin && o.Grant != GrantClientCredentials:
		return invalid("http.oauth.grant", "%q is not known", o.Grant)
	case o.Grant == GrantClientCredentials && (o.ClientID == "" || o.ClientSecret == ""):
		return invalid("http.oauth", "client credentials are a client_id and a client_secret; give both")
	case o.ClientID == "" && o.ClientSecret != "":
		return invalid("http.oauth.client_id", "is missing; the client_secret is of a client")
	}
	for _, scope := range o.Scopes {
		for _, r := range scope {
			if r <= ' ' || r > '~' || r == '"' || r == '\\' {
				return invalid("http.oauth.scopes", "%q is not a scope", scope)
			}
		}
		if scope == "" {
			return invalid("http.oauth.scopes", "one is empty")
		}
	}
	return nil
}
