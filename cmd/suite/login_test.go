package suite

import "testing"

func TestLoginRedirectURI(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:7410": "http://127.0.0.1:7410/v1/mcpLogins:callback", "localhost:80": "http://localhost:80/v1/mcpLogins:callback",
		"127.0.0.1:0": "", "": "", "0.0.0.0:7410": "", ":7410": "", "10.0.0.1:7410": "",
	} {
		if got := loginRedirectURI("http", addr); got != want {
			t.Errorf("%s: %q", addr, got)
		}
	}
}
