package api

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
)

const (
	// maxListed is how many names a message lists.
	maxListed = 5
	// listModelsTime is how long the planner may take to list models.
	listModelsTime = 10 * time.Second
)

// definitions warns of tools that cannot be called, of tools that were left out, and if no effects are configured.
func (t *serverTest) definitions(context.Context) *check {
	var broken []string
	assumed := 0
	for _, tool := range t.tools.Tools {
		if tool.Input != "" {
			if _, err := tool.InputSchema(); err != nil {
				broken = append(broken, fmt.Sprintf("%s (%v)", tool.Name, err))
			}
		}
		if t.subject.Policy(tool.Name, tool.Hints).Effect == commonv1.Effect_EFFECT_WRITE {
			assumed++
		}
	}
	s := t.subject
	var seen, advice []string
	if len(broken) > 0 {
		seen = append(seen, "tools that cannot be called, because their input schema is not valid: "+firstOf(broken))
		advice = append(advice, "report this to the author of the server, or use another version")
	}
	if skipped := t.tools.Skipped; len(skipped) > 0 {
		seen = append(seen, "tools that were left out: "+firstOf(skipped))
		advice = append(advice, "report this to the author of the server")
	}
	if assumed == len(t.tools.Tools) && assumed > 0 && !s.Trusted && len(s.Policies) == 0 {
		seen = append(seen, "the effects of the tools are not configured, so every tool counts as one that writes, and each call needs an approval")
		advice = append(advice, "set the effects (--effect TOOL=read) or trust the server (--trusted) in its registration")
	}
	if len(seen) == 0 {
		return &check{Message: "the schemas can be used"}
	}
	return warning(strings.Join(seen, "; "), strings.Join(advice, "; "))
}

// approvals warns of the tools that wait for an approval. Like any listing, it first pins the tools that the server's pinning accepts.
func (t *serverTest) approvals(context.Context) *check {
	review, err := t.Pins.Review(t.subject, t.tools)
	if err != nil {
		return t.failure(err)
	}
	var quarantined []string
	for _, tool := range t.tools.Tools {
		if review.Holds(tool.Name) {
			quarantined = append(quarantined, tool.Name)
		}
	}
	if len(quarantined) == 0 {
		return &check{Message: "no tool waits for an approval"}
	}
	return warning(count(len(quarantined), "tool")+" quarantined, because new or changed: "+firstOf(quarantined),
		fmt.Sprintf("pawl mcp tools %s --quarantined shows them, pawl mcp approve %[1]s TOOL approves one", t.subject.ID))
}

// models checks the model that the server may ask.
func (t *serverTest) models(ctx context.Context) *check {
	if t.Models == nil {
		return warning("the server may ask language models, but this pool has no planner through which to ask them",
			"an operator can start the pool with --planner, or remove the permission (--unset sampling)")
	}
	ctx, cancel := context.WithTimeout(ctx, listModelsTime)
	defer cancel()
	names, err := t.Models.Names(ctx, t.user)
	s := t.subject
	switch model := s.Sampling.Model; {
	case err != nil:
		return warning("the models could not be listed: "+t.caller.Explain(err), "")
	case len(names) == 0:
		return warning("the server may ask language models, but none are configured", "an operator can configure models in the file of the planner's --models")
	case model == "":
		return &check{Message: "the server may ask the model that it hints at, one of " + firstOf(names)}
	case !slices.Contains(names, model):
		return warning(fmt.Sprintf("the server may ask the model %q, which does not exist; the models are %s", model, firstOf(names)),
			fmt.Sprintf("pawl mcp update %s --sampling MODEL, with a name that pawl models lists", s.ID))
	default:
		return &check{Message: "the server may ask " + model}
	}
}

// firstOf lists the first few names.
func firstOf(names []string) string {
	if len(names) <= maxListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
}

// failure returns the result of a failed check, with advice if there is any for the error.
func (t *serverTest) failure(err error) *check {
	return &check{Status: checkFailed, Message: t.caller.Explain(mcp.As(err)), Advice: advice(err)}
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
		return "there is no such host: correct the url, or the DNS of the machine on which the pool runs"
	case errors.As(err, &name):
		return "the DNS of the machine on which the pool runs does not answer; try again, or check that machine"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at that address: start the server, or correct the port"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "the machine on which the pool runs has no route to that address"
	case errors.As(err, &issuer), errors.As(err, &invalid):
		return "the machine on which the pool runs does not trust the server's certificate: install its authority on that machine, or renew the certificate"
	case errors.As(err, &host):
		return "the server's certificate is for another host name: use the name in the certificate"
	}
	return byKind(mcp.As(err).Kind)
}

func byKind(kind mcp.Kind) string {
	switch kind {
	case mcp.Protocol:
		return "check that it is an MCP server, and which revision of MCP it speaks; a program may write only MCP messages to its stdout"
	case mcp.Answered:
		return "see the server's own log"
	case mcp.TooLarge:
		return "raise the pool's --max-message-bytes if you expect messages of that size"
	case mcp.Unauthorized:
		return "configure a key for the server (a header, or a variable of its environment), or log in"
	case mcp.AddressRefused:
		return "an operator can register the server, or allow the address with --allow-addresses"
	default:
		return ""
	}
}
