package mcp

import (
	"maps"
	"strings"

	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// TransportFlags say how a server is reached.
type TransportFlags struct {
	URL    string   `name:"url" placeholder:"URL" help:"Address of a streamable HTTP server."`
	Header []string `sep:"none" placeholder:"K=V" help:"Header of each HTTP request (repeatable)."`
	Env    []string `sep:"none" placeholder:"K=V" help:"Environment of the program (repeatable)."`
	Cwd    string   `type:"existingdir" placeholder:"DIR" help:"Folder in which the program is started."`
}

// reach writes the flags and the command into a registration, and returns the names of the fields. A server may change from a program to an
// address, or back. local: the program runs on this machine, and it and its arguments mean this folder.
func (f *TransportFlags) reach(s *mcppoolv1.McpServer, command []string, local bool) ([]string, error) {
	env, err := pairs("--env", f.Env)
	if err != nil {
		return nil, err
	}
	headers, err := pairs("--header", f.Header)
	if err != nil {
		return nil, err
	}
	if f.URL != "" && len(command) > 0 {
		return nil, ui.Usagef("a server has a command or --url, not both").Then("pawl mcp add --help")
	}
	var fields []string
	if len(command) > 0 {
		fields = f.program(s, command, local)
	} else if f.URL != "" {
		fields = f.address(s)
	}
	switch {
	case s.GetStdio() == nil && (len(env) > 0 || f.Cwd != ""):
		return nil, ui.Usagef("--env and --cwd are for servers with a command").Then("pawl mcp add --help")
	case s.GetHttp() == nil && len(headers) > 0:
		return nil, ui.Usagef("--header is for servers with --url").Then("pawl mcp add --help")
	}
	if len(env) > 0 {
		s.GetStdio().Env = over(s.GetStdio().GetEnv(), env)
		fields = append(fields, "stdio.env")
	}
	if len(headers) > 0 {
		s.GetHttp().Headers = over(s.GetHttp().GetHeaders(), headers)
		fields = append(fields, "http.headers")
	}
	if f.Cwd != "" {
		s.GetStdio().Cwd = f.Cwd
		fields = append(fields, "stdio.cwd")
	}
	return fields, nil
}

// address sets the URL.
func (f *TransportFlags) address(s *mcppoolv1.McpServer) []string {
	if s.GetHttp() == nil {
		s.Transport = &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: f.URL}}
		return []string{"http"}
	}
	s.GetHttp().Url = f.URL
	return []string{"http.url"}
}

// program sets what is started.
func (f *TransportFlags) program(s *mcppoolv1.McpServer, command []string, local bool) []string {
	fields := []string{"stdio.command", "stdio.args"}
	if s.GetStdio() == nil {
		s.Transport, fields = &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{}}, []string{"stdio"}
	}
	t := s.GetStdio()
	t.Command, t.Args = command[0], command[1:]
	if local && f.Cwd == "" {
		t.Cwd = ""
		localise(s)
		fields = append(fields, "stdio.cwd")
	}
	return fields
}

// over is what there was with what is new in it. Values that are not shown (***) stand for those there were.
func over(old, now map[string]string) map[string]string {
	m := map[string]string{}
	maps.Copy(m, old)
	maps.Copy(m, now)
	return m
}

func pairs(flag string, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	m := map[string]string{}
	for _, p := range list {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, ui.Usagef("%s %q is not NAME=VALUE", flag, p).Then("pawl mcp add --help")
		}
		m[k] = v
	}
	return m, nil
}
