package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"pawl.dev/services/outbound"
)

const (
	advice     = "an operator can allow it with --allow-webhook-addresses"
	httpAdvice = "use https and a public address; or " + advice
)

// Receivers checks the URLs of webhooks and posts to them.
type Receivers struct {
	allowed       []netip.Prefix
	secure, plain *http.Client
}

// NewReceivers returns Receivers at public addresses, by https, and at the allowed ranges, also by http. The address is checked at each connection. A
// transport other than nil replaces the network.
func NewReceivers(allowed []netip.Prefix, transport http.RoundTripper) *Receivers {
	client := func(s outbound.Server) *http.Client {
		s.PublicOnly, s.Allowed = true, allowed
		c := outbound.NewBareClient(s)
		c.Transport = cmp.Or(transport, c.Transport)
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		return c
	}
	return &Receivers{allowed: allowed, secure: client(outbound.Server{Advice: advice}), plain: client(outbound.Server{Advice: httpAdvice, AllowedOnly: true})}
}

// Check returns an error for a URL to which nothing can be posted, as far as that is known without the address of its name.
func (r *Receivers) Check(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("it is not an https URL")
	case u.User != nil:
		return errors.New("it has a user name; verify the signature instead")
	case u.Fragment != "":
		return errors.New("it has a fragment")
	case u.Scheme == "http" && len(r.allowed) == 0:
		return fmt.Errorf("http is not encrypted: %s", httpAdvice)
	case u.Scheme == "http":
		return outbound.CheckLiteral(address, outbound.Server{Allowed: r.allowed, AllowedOnly: true, Advice: httpAdvice})
	}
	return outbound.CheckLiteral(address, outbound.Server{Allowed: r.allowed, Advice: advice})
}

// do sends a request.
func (r *Receivers) do(req *http.Request) (*http.Response, error) {
	client := r.secure
	if req.URL.Scheme == "http" {
		client = r.plain
	}
	return client.Do(req)
}

// describe returns the error of a request for the webhook's owner: without the path of the URL, which may be secret, and without addresses inside the
// installation's network.
func describe(err error) string {
	if refused, ok := errors.AsType[*outbound.Error](err); ok && refused.PublicError() != "" {
		return refused.PublicError()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "there was no answer within " + timeout.String()
	}
	if inURL, ok := errors.AsType[*url.Error](err); ok {
		err = inURL.Err
	}
	return err.Error()
}
