package mcp

import (
	"slices"
	"strings"

	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// sayConsequences says what a change means for what was approved, for logins, and for who may use the server.
func (c *UpdateCmd) sayConsequences(u *ui.UI, old, now *mcppoolv1.McpServer, fields []string) {
	if moved(old, now) || c.URL != "" && hides(now.GetHttp().GetUrl()) && !hides(c.URL) {
		u.Printf("  it is another server now: what was approved of its tools, and logins to it, are forgotten; the tools that it has when it\n" +
			"  is used for the first time are taken as they are\n")
	} else if slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, "http.oauth") }) {
		u.Printf("  a login that there is stays; the next one is made as said now (pawl mcp login %s)\n", now.GetId())
	}
	if old.GetPinning() != now.GetPinning() {
		u.Printf("  %s\n", pinningText(now.GetPinning()))
	}
	if !now.GetDisabled() && !now.GetActive() {
		u.Printf("  your tasks do not use it: pawl mcp activate %s\n", now.GetId())
	}
}

// hides says whether something in an address is not shown.
func hides(address string) bool { return strings.Contains(address, "***") }

// moved says whether another program or address answers now: what the pool keeps approvals and logins for.
func moved(old, now *mcppoolv1.McpServer) bool {
	o, n := old.GetStdio(), now.GetStdio()
	return (o == nil) != (n == nil) || o.GetCommand() != n.GetCommand() || !slices.Equal(o.GetArgs(), n.GetArgs()) || o.GetCwd() != n.GetCwd() ||
		old.GetHttp().GetUrl() != now.GetHttp().GetUrl()
}

func pinningText(p mcppoolv1.Pinning) string {
	switch p {
	case mcppoolv1.Pinning_PINNING_TRUST_ALL:
		return "its tools need no approval now; those that were given are kept for when they do again"
	case mcppoolv1.Pinning_PINNING_ALLOW_NEW:
		return "tools of it that change need an approval now, new ones do not"
	}
	return "tools of it that are new or change need an approval now; those that came while they did not need it do too"
}
