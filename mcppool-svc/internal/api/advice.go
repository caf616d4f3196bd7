package api

import (
	"errors"
	"net"
	"syscall"

	"crypto/x509"

	"pawl.dev/mcppool-svc/internal/mcp"
)

// failure returns the result of a failed check. Most messages say what to do; then there is no further advice.
func failure(err error) *check {
	return &check{Status: checkFailed, Message: mcp.As(err).Message, Advice: advice(err)}
}

// advice returns what to do about an error, by its typed cause.
func advice(err error) string {
	var (
		name    *net.DNSError
		issuer  x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "there is no such host: correct the url, or the DNS of the machine that the pool runs on"
	case errors.As(err, &name):
		return "the DNS of the machine that the pool runs on does not answer; try again, or look there"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: start the server, or correct the port"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way to that address from the machine that the pool runs on"
	case errors.As(err, &issuer), errors.As(err, &invalid):
		return "its certificate is not one that the pool's machine trusts: install its authority there, or renew it"
	case errors.As(err, &host):
		return "its certificate is for another name: use the name that it is for"
	}
	return byKind(mcp.As(err).Kind)
}

func byKind(kind mcp.Kind) string {
	switch kind {
	case mcp.Protocol:
		return "check that it is an MCP server, and which revision of MCP it speaks; nothing but MCP may go to its stdout"
	case mcp.Answered:
		return "look into the server's own log"
	case mcp.TooLarge:
		return "raise the pool's --max-message-bytes if you expect so much"
	case mcp.Unauthorized:
		return "give it a key (a header, or a variable of its environment), or log in"
	case mcp.AddressRefused:
		return "an operator can register it, or allow the address with --allow-addresses"
	default:
		return ""
	}
}
