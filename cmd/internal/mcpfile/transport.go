package mcpfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// transport reads how the server is reached. A type that does not fit the other keys is an error.
func (f *fields) transport(s *mcppoolv1.McpServer, dir string) error {
	var kind, command, url string
	if err := f.take(member{"type", aText, &kind}, member{"command", aText, &command}, member{"url", "an address", &url}); err != nil {
		return err
	}
	kind = strings.ToLower(kind)
	http := slices.Contains([]string{"http", "streamable-http", "streamablehttp", "streamable_http", "sse"}, kind)
	switch {
	case kind != "" && kind != "stdio" && !http:
		return fmt.Errorf(`"type": %q is not known; use "stdio", "http" or "sse"`, kind)
	case command != "" && url != "":
		return errors.New("it has both a command and a url; leave one out")
	case command == "" && url == "":
		return errors.New("it has neither a command nor a url")
	case command != "" && http:
		return fmt.Errorf(`"type": %q does not go with "command"; use "url", or leave the type out`, kind)
	case url != "" && kind == "stdio":
		return fmt.Errorf(`"type": %q does not go with "url"; use "command", or leave the type out`, kind)
	case command != "":
		return f.stdio(s, command, dir)
	}
	return f.http(s, url, kind == "sse")
}

func (f *fields) stdio(s *mcppoolv1.McpServer, command, dir string) error {
	t := &mcppoolv1.StdioTransport{Command: command}
	s.Transport = &mcppoolv1.McpServer_Stdio{Stdio: t}
	err := f.take(member{"args", textList, &t.Args}, member{"env", texts, &t.Env}, member{"cwd", "a path", &t.Cwd})
	if t.GetCwd() != "" && !filepath.IsAbs(t.GetCwd()) {
		t.Cwd = filepath.Join(dir, t.GetCwd())
	}
	return err
}

func (f *fields) http(s *mcppoolv1.McpServer, url string, sse bool) error {
	t := &mcppoolv1.HttpTransport{Url: url, Sse: sse}
	s.Transport = &mcppoolv1.McpServer_Http{Http: t}
	var oauth *struct {
		Grant        string   `json:"grant"`
		ClientID     string   `json:"clientId"`
		ClientSecret string   `json:"clientSecret"`
		Scopes       []string `json:"scopes"`
	}
	const what = `an object such as {"clientId": "…", "clientSecret": "${env:NAME}", "scopes": ["…"], "grant": "client_credentials"}`
	if err := f.take(member{"headers", texts, &t.Headers}, member{"oauth", what, &oauth}); err != nil || oauth == nil {
		return err
	}
	t.Oauth = &mcppoolv1.OAuth{ClientId: oauth.ClientID, ClientSecret: oauth.ClientSecret, Scopes: oauth.Scopes}
	t.Oauth.Grant = mcppoolv1.OAuth_Grant(word(mcppoolv1.OAuth_Grant_value, "GRANT_", oauth.Grant))
	if oauth.Grant != "" && t.GetOauth().GetGrant() == 0 {
		return fmt.Errorf(`"oauth": the "grant" %q must be authorization_code or client_credentials`, oauth.Grant)
	}
	return nil
}

// roots reads the folders that the server is told of.
func (f *fields) roots(s *mcppoolv1.McpServer, dir string) error {
	err := f.take(member{"roots", `a list of folders such as ["/srv/project", "file:///srv/data"]`, &s.Roots})
	for i, folder := range s.GetRoots() {
		if folder == "" {
			return fmt.Errorf(`"roots": folder %d is empty`, i+1)
		}
		if !filepath.IsAbs(folder) && !strings.HasPrefix(folder, "file:") {
			s.Roots[i] = filepath.Join(dir, folder)
		}
	}
	return err
}
