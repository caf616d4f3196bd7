package registry

import (
	"fmt"
)

// oauth reads how the pool logs in.
func (f *fields) oauth(t *HTTP) error {
	var o struct {
		Grant        string   `json:"grant"`
		ClientID     string   `json:"clientId"`
		ClientSecret string   `json:"clientSecret"`
		Scopes       []string `json:"scopes"`
	}
	const what = `an object such as {"clientId": "…", "clientSecret": "${env:NAME}", "scopes": ["…"], "grant": "client_credentials"}`
	ok, err := take(f, "oauth", what, &o)
	if !ok || err != nil {
		return err
	}
	grant, known := ParseGrant(o.Grant)
	if !known {
		return fmt.Errorf(`"oauth": the "grant" %q must be authorization_code or client_credentials`, o.Grant)
	}
	t.OAuth = &OAuth{Grant: grant, ClientID: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes}
	return nil
}
