package suite

import (
	"net"

	"pawl.dev/services/serve"
)

// landingPage is where the gateway ends logins to MCP servers, as far as browsers of this machine can reach it; empty where
// that is not known before it listens, or is for an operator to say.
func landingPage(httpAddr string) string {
	_, port, err := net.SplitHostPort(httpAddr)
	if err != nil || port == "0" || !serve.LoopbackHost(httpAddr) {
		return ""
	}
	return "http://" + httpAddr + "/v1/mcpLogins:callback"
}
