package cli_test

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

const loginState = "state-1"

// logins records the login requests to the pool, and has the address that a browser is to open.
type logins struct {
	asked   []string
	address string
}

// loginWorld has a server with logins. The authorization server is only an address, and takes any code but a bad one.
func loginWorld(t *testing.T) (*world, *logins) {
	t.Helper()
	l := &logins{address: "https://auth.example/authorize?"}
	w := newWorld(t)
	w.register(&mcppoolv1.McpServer{Id: "web", Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "https://web.example/mcp"}}})
	clitest.On(w.pool.Script, func(req *mcppoolv1.StartMcpLoginRequest, next func() (*mcppoolv1.StartMcpLoginResponse, error)) (*mcppoolv1.StartMcpLoginResponse, error) {
		if req.GetMcpId() != "web" {
			return next()
		}
		l.asked = append(l.asked, req.GetMcpId()+" begun")
		return &mcppoolv1.StartMcpLoginResponse{
			AuthorizationUrl: l.address + url.Values{"redirect_uri": {req.GetRedirectUri()}, "state": {loginState}}.Encode(),
			State:            loginState, RedirectUri: req.GetRedirectUri(), ExpireTime: timestamppb.New(clitest.Epoch),
		}, nil
	})
	clitest.On(w.pool.Script, func(req *mcppoolv1.FinishMcpLoginRequest, _ func() (*mcppoolv1.FinishMcpLoginResponse, error)) (*mcppoolv1.FinishMcpLoginResponse, error) {
		l.asked = append(l.asked, "finished "+req.GetState()+" "+req.GetCode()+" "+req.GetIss()+req.GetError())
		if req.GetCode() == "bad" || req.GetError() != "" {
			return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED, "the answer of the authorization server is refused")
		}
		return &mcppoolv1.FinishMcpLoginResponse{McpId: "web", Scopes: []string{"read", "write"}}, nil
	})
	w.serveElsewhere()
	return w, l
}

// visit plays the browser: it opens the redirect URI with these values, and returns the status and the page.
func visit(t *testing.T, address string, values url.Values) (int, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	back := u.Query().Get("redirect_uri")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, back+"?"+values.Encode(), nil)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	if strings.Contains(string(body), values.Get("code")) && values.Get("code") != "" {
		t.Errorf("the page shows the code:\n%s", body)
	}
	return resp.StatusCode, string(body)
}

// anyPort hides ports and what differs with them.
func anyPort(r result) result {
	port := regexp.MustCompile(`127\.0\.0\.1(:|%3A)\d+`)
	r.out, r.err = port.ReplaceAllString(r.out, "127.0.0.1${1}PORT"), port.ReplaceAllString(r.err, "127.0.0.1${1}PORT")
	return r
}

func TestMCPLogin(t *testing.T) {
	w, logins := loginWorld(t)
	w.tty = true
	pages := make(chan string, 2)
	w.browse = func(address string) error {
		go func() {
			// The answer of another login is refused, and the right one still counts.
			status, _ := visit(t, address, url.Values{"state": {"other"}, "code": {"evil"}})
			if status != http.StatusBadRequest {
				t.Errorf("another login: %d", status)
			}
			_, body := visit(t, address, url.Values{"state": {loginState}, "code": {"code-1"}, "iss": {"https://auth.example"}})
			pages <- body
		}()
		return nil
	}
	w.golden("mcp login", anyPort(w.pawl("mcp", "login", "web")))
	if page := <-pages; !strings.Contains(page, "Go back to the terminal") {
		t.Errorf("the browser saw:\n%s", page)
	}
	w.tty = false
	if diff := cmp.Diff([]string{"web begun", "finished state-1 code-1 https://auth.example"}, logins.asked); diff != "" {
		t.Error(diff)
	}
	w.golden("mcp logout", w.pawl("mcp", "logout", "web"))
	w.pawl("mcp", "logout", "web", "--json").expect(t, 0, "{}", "")
	w.pawl("mcp", "logout", "nope").expect(t, 1, "", `there is no MCP server "nope"`)
}

// With --json the address is printed as JSON, and no browser is opened.
func TestMCPLoginJSON(t *testing.T) {
	w, _ := loginWorld(t)
	r := w.start("mcp", "login", "web", "--json")
	address := regexp.MustCompile(`https://auth\.example[^"]*`)
	for !address.MatchString(r.out.String()) {
		<-r.out.new
	}
	if _, body := visit(t, strings.ReplaceAll(address.FindString(r.out.String()), `\u0026`, "&"), url.Values{"state": {loginState}, "code": {"code-1"}}); !strings.Contains(body, "logged in") {
		t.Errorf("the browser saw:\n%s", body)
	}
	w.golden("mcp login json", anyPort(r.wait()))
}

func TestMCPLoginFails(t *testing.T) {
	w, logins := loginWorld(t)
	w.tty = true
	w.browse = func(address string) error {
		go func() {
			if status, body := visit(t, address, url.Values{"state": {loginState}, "error": {"access_denied"}}); status != http.StatusOK || !strings.Contains(body, "Go back to the terminal") {
				t.Errorf("%d\n%s", status, body)
			}
		}()
		return nil
	}
	w.pawl("mcp", "login", "web").expect(t, 1, "", "is refused")
	w.pawl("mcp", "login", "nope").expect(t, 1, "", `there is no MCP server "nope"`)
	w.pawl("mcp", "login").expect(t, 64, "", "which server?")
	w.pawl("mcp", "login", "web", "--no-browser", "--timeout", "1ms").expect(t, 1, "", "the login was not finished within")
	w.browse = func(string) error { return errors.New("open a browser with xdg-open: no such file") }
	w.pawl("mcp", "login", "web", "--timeout", "1ms").expect(t, 1, "", "open a browser with xdg-open")
	logins.address = "file:///etc/passwd?"
	w.browse = func(address string) error {
		t.Errorf("opened %s", address)
		return nil
	}
	w.pawl("mcp", "login", "web").expect(t, 1, "", "no browser can open")
}

// If the browser cannot reach the redirect URI, a person pastes the address that it was sent to.
func TestMCPLoginByHand(t *testing.T) {
	w, logins := loginWorld(t)
	const address = "http://127.0.0.1:1/callback?code=code-2&state=state-1&iss=https%3A%2F%2Fauth.example"
	w.pawl("mcp", "login", "--finish", address).expect(t, 0, "logged in to web (read, write)\n", "")
	w.typed = strings.NewReader(address + "\n")
	w.pawl("mcp", "login", "--finish", "-", "--json").expect(t, 0, `"mcpId"`, "")
	w.pawl("mcp", "login", "--finish", "http://127.0.0.1:1/callback?code=x").expect(t, 64, "", "it has no state")
	w.pawl("mcp", "login", "--finish", strings.ReplaceAll(address, "code-2", "bad")).expect(t, 1, "", "is refused")
	want := []string{"finished state-1 code-2 https://auth.example", "finished state-1 code-2 https://auth.example", "finished state-1 bad https://auth.example"}
	if diff := cmp.Diff(want, logins.asked); diff != "" {
		t.Error(diff)
	}
}

func TestMCPAddWithLogin(t *testing.T) {
	w := newWorld(t)
	w.unlisted = wantsLogin
	w.serveElsewhere()
	w.pawl("mcp", "add", "web", "--url", "https://web.example/mcp", "--client-id", "pawl", "--client-secret", "${env:S}", "--client-credentials", "--scope", "a,b", "--scope", "c").
		expect(t, 0, "web is registered and active; it requires a login: pawl mcp login web\n", "")
	want := &mcppoolv1.OAuth{ClientId: "pawl", ClientSecret: "${env:S}", Scopes: []string{"a,b", "c"}, Grant: mcppoolv1.OAuth_GRANT_CLIENT_CREDENTIALS}
	created := clitest.Sent[*mcppoolv1.CreateMcpServerRequest](w.pool.Script)[0]
	if diff := cmp.Diff(want, created.GetMcpServer().GetHttp().GetOauth(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	w.pawl("mcp", "add", "x", "--client-id", "pawl", "--", "cmd").expect(t, 64, "", "--url")
	chdir(t, "app")
	text := `{"mcpServers": {"file": {"url": "https://x.example/mcp", "oauth": {"clientId": "c", "clientSecret": "s", "grant": "client_credentials"}}}}`
	if err := os.WriteFile("mcp.json", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.pawl("mcp", "add", "--from", "mcp.json").expect(t, 0, "file is registered", "")
	if o := w.pool.Server("file").GetHttp().GetOauth(); o.GetClientId() != "c" || o.GetGrant() != mcppoolv1.OAuth_GRANT_CLIENT_CREDENTIALS {
		t.Errorf("oauth: %v", o)
	}
}
