package mcppool

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// The secrets of an address are never shown, whatever the server says, and the mask can be sent back.
func TestAddressesHideSecrets(t *testing.T) {
	asked := make(chan string, 100)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		asked <- user + ":" + password + " " + r.URL.RawQuery
		http.Error(w, "no such key: "+r.URL.RawQuery, http.StatusBadRequest)
	}))
	t.Cleanup(up.Close)
	withUser := strings.Replace(up.URL, "http://", "http://ann:hunter2hunter2@", 1)
	s := start(t, Config{MCPConfigs: []string{writeConfig(t, map[string]any{"mcpServers": map[string]any{
		"file": map[string]any{"url": withUser + "/mcp?api_key=sesame-sesame&page=2"},
	}})}})
	op, ann := s.as("op"), s.as("ann")
	registered := create(t, op, web("web", up.URL+"/mcp?api_key=sesame-sesame&page=2", nil))
	if want := up.URL + "/mcp?api_key=***&page=2"; registered.GetHttp().GetUrl() != want {
		t.Errorf("created: %s", registered.GetHttp().GetUrl())
	}

	for _, id := range []string{"web", "file"} {
		if _, err := ann.ActivateMcpServer(t.Context(), &mcppoolv1.ActivateMcpServerRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		_, err := ann.ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: id})
		if err == nil || strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error = %v", id, err)
		}
		got, err := op.GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: id})
		if text := got.String(); err != nil || strings.Contains(text, "sesame") || strings.Contains(text, "hunter2") || !strings.Contains(text, "api_key=***&page=2") {
			t.Errorf("%s: %s, %v", id, text, err)
		}
	}
	got, err := op.ListMcpServers(t.Context(), &mcppoolv1.ListMcpServersRequest{})
	if text := got.String(); err != nil || strings.Contains(text, "sesame") || !strings.Contains(text, "http://***@127.0.0.1") {
		t.Errorf("list: %s, %v", text, err)
	}
	for len(asked) > 0 {
		<-asked
	}

	// The masked secret is sent back with another path.
	registered.GetHttp().Url = up.URL + "/v2?api_key=***&page=3"
	update := func(m *mcppoolv1.McpServer) error {
		_, err := op.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: m, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"http"}}})
		return err
	}
	if err := update(registered); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "web"}); err == nil {
		t.Error("a server that answers 400 listed its tools")
	}
	if got := <-asked; got != ": api_key=sesame-sesame&page=3" {
		t.Errorf("sent %q", got)
	}

	wantReason(t, update(web("web", "https://evil.example/mcp?api_key=***", nil)), "INVALID_REQUEST", "has no value to keep")
	wantReason(t, update(web("web", withUser+"/mcp", nil)), "INVALID_REQUEST", "${env:NAME}")
	for url, want := range map[string]string{withUser: "in a header", strings.Replace(up.URL, "http://", "http://***@", 1): "in a header", up.URL + "?sig=***": "no value to keep"} {
		_, err := op.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: web("new", url, nil)})
		wantReason(t, err, "INVALID_REQUEST", want)
	}
}

// Tokens of hosted servers are often in the path: no answer but the registration shown to operators, no error and no log line has path or query of an
// address, whatever the server answers (issue 13).
func TestMessagesHaveNoPaths(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/moved"):
			http.Redirect(w, r, r.URL.Path+"/on", http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "/login"):
			w.Header().Set("WWW-Authenticate", "Bearer resource_metadata=\"http://"+r.Host+r.URL.Path+"/metadata\"")
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"nothing at %s, %s"}}`, r.URL, r.URL.Query().Get("page"))
		}
	}))
	t.Cleanup(up.Close)
	var log bytes.Buffer
	s := startWith(t, Config{}, Deps{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	query := "/mcp?page=" + secretText
	urls := map[string]string{
		"closed": "http://127.0.0.1:1/s/" + secretText + query, "unknown": "http://no-such-host.invalid/s/" + secretText + query, "wrong": up.URL + "/s/" + secretText + query,
		"moved": up.URL + "/s/" + secretText + "/moved", "login": up.URL + "/s/" + secretText + "/login",
	}
	answers := &seen{}
	for id, url := range urls {
		create(t, s.as("op"), web(id, url, nil))
		for _, user := range []string{"op", "ann"} {
			_, err := s.as(user).ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: id})
			if answers.add(nil, err); err == nil {
				t.Errorf("%s: the tools were listed", id)
			}
			o := invoke(t, s.as(user), &mcppoolv1.CallToolRequest{McpId: id, Name: "echo", InputJson: "{}"})
			answers.add(o.result, o.err)
			answers.add(s.as(user).TestMcpServer(t.Context(), &mcppoolv1.TestMcpServerRequest{Id: id}))
			answers.add(s.as(user).GetMcpServerLog(t.Context(), &mcppoolv1.GetMcpServerLogRequest{Id: id}))
			answers.add(s.as(user).StartMcpLogin(t.Context(), &mcppoolv1.StartMcpLoginRequest{McpId: id, RedirectUri: "http://127.0.0.1:1/"}))
			got, err := s.as(user).GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: id})
			if user == "op" {
				got.Transport = nil
			}
			answers.add(got, err)
		}
	}
	for name, text := range map[string]string{"an answer": answers.String(), "the log": log.String()} {
		if i := strings.Index(text, secretText); i >= 0 {
			t.Errorf("%s shows a path: …%s…", name, text[max(0, i-300):i+50])
		}
	}
}
