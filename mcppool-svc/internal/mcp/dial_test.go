package mcp

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/server"
)

func wantRefused(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != AddressRefused || e.MayHaveRun || !strings.Contains(e.Message, "--allow-addresses") {
		t.Errorf("error = %v, want a refused address, nothing sent", err)
	}
}

func TestPlainUsersReachNoPrivateAddress(t *testing.T) {
	url := serveWeb(t, server.NewStreamableHTTPServer(newMCP(t)))
	for _, host := range []string{"127.0.0.1", "localhost"} {
		s := webServer(strings.Replace(url, "127.0.0.1", host, 1))
		s.HTTP.PublicOnly, s.ByOperator = true, false
		_, err := connect(t, newConnector(t, Config{}), s)
		wantRefused(t, err)
		allowed := newConnector(t, Config{AllowAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}})
		dialServer(t, allowed, s)
	}
}

// A redirect never leads to an internal address, not even from a server that an operator registered: the operator trusted that address alone.
func TestRedirectsToPrivateAddressesAreRefused(t *testing.T) {
	var reached atomic.Bool
	inside := serveWeb(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	outside := serveWeb(t, http.RedirectHandler(inside, http.StatusTemporaryRedirect))
	_, err := connect(t, newConnector(t, Config{}), webServer(outside))
	wantRefused(t, err)
	if reached.Load() {
		t.Error("the redirect was followed")
	}
}

func TestRedirectsAreBounded(t *testing.T) {
	var n atomic.Int32
	var web *httptest.Server
	web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			n.Add(1)
		}
		http.Redirect(w, r, web.URL+"/again", http.StatusTemporaryRedirect)
	}))
	defer web.Close()
	_, err := connect(t, newConnector(t, Config{}), webServer(web.URL))
	if e := As(err); e.Kind != Misconfigured || !strings.Contains(e.Message, "redirects more than") {
		t.Errorf("error = %v", err)
	}
	if n.Load() > 6 {
		t.Errorf("%d requests", n.Load())
	}
}
