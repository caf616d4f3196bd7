package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"pawl.dev/gateway/gateway"
)

// A site that people log in at sends them back here; nothing else of another site gets in, and that not to any other path.
func TestLoginPageIsReachedFromOtherSites(t *testing.T) {
	b := start(t, gateway.Config{})
	get := func(path string, header map[string]string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Sec-Fetch-Site", "cross-site")
		for name, value := range header {
			req.Header.Set(name, value)
		}
		resp, err := b.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode, resp.Header.Get("Content-Type")
	}
	const page = "/v1/mcpLogins:callback?state=s&code=c"
	navigation := map[string]string{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	if status, kind := get(page, navigation); status == http.StatusForbidden || !strings.HasPrefix(kind, "text/html") {
		t.Errorf("the page: %d, %s", status, kind)
	}
	for name, tt := range map[string]struct {
		path   string
		header map[string]string
	}{
		"a frame":          {page, map[string]string{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}},
		"a script":         {page, map[string]string{"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}},
		"an origin":        {page, map[string]string{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Origin": "https://evil.example"}},
		"another path":     {"/v1/mcpServers", navigation},
		"nothing but that": {page, nil},
	} {
		if status, _ := get(tt.path, tt.header); status != http.StatusForbidden {
			t.Errorf("%s: %d", name, status)
		}
	}
}
