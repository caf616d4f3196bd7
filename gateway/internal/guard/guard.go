package guard

import (
	"mime"
	"net/http"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/gateway/internal/problem"
)

// Config names the hosts and origins that are allowed.
type Config struct {
	// AllowHosts are names, each with or without a port, that the Host header may have, besides localhost and loopback addresses.
	AllowHosts []string
	// AllowOrigins are the origins whose pages may call the API: scheme://host[:port].
	AllowOrigins []string
	// AnyHost accepts every Host if AllowHosts is empty. It is for services with keys: a page that rebinds a DNS name has no key.
	AnyHost bool
}

// Guard checks requests before the handlers.
type Guard struct {
	hosts   hosts
	origins map[string]bool
}

// New checks the configuration and returns its guard.
func New(cfg Config) (*Guard, error) {
	origins, err := parseOrigins(cfg.AllowOrigins)
	if err != nil {
		return nil, err
	}
	hosts, err := parseHosts(cfg.AllowHosts)
	if err != nil {
		return nil, err
	}
	hosts.any = cfg.AnyHost && len(cfg.AllowHosts) == 0
	return &Guard{hosts: hosts, origins: origins}, nil
}

// Wrap returns a handler that checks each request and then calls next.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return g.wrap(next, func(*http.Request) bool { return false })
}

// WrapLanding is Wrap for a page to which other sites, such as authorization servers, redirect browsers. The handler must check a secret
// in the redirect.
func (g *Guard) WrapLanding(next http.Handler) http.Handler { return g.wrap(next, isNavigation) }

// isNavigation reports whether a browser opens the address, with GET, as a page of its own: not in a frame and not for a script.
func isNavigation(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

func (g *Guard) wrap(next http.Handler, crossSiteAllowed func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harden(w.Header())
		if p := g.check(r, crossSiteAllowed(r)); p != nil {
			p.Write(w)
			return
		}
		if g.allowsOrigin(r) {
			setCORS(w.Header(), r.Header.Get("Origin"))
			if isPreflight(r) {
				answerPreflight(w, r)
				return
			}
		}
		for _, check := range []func(*http.Request) *problem.Problem{checkContentType, checkPreconditions} {
			if p := check(r); p != nil {
				p.Write(w)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// harden sets headers of every response: other pages must not embed the response, and browsers must not guess its type.
func harden(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Add("Vary", "Origin")
}

func (g *Guard) check(r *http.Request, crossSiteAllowed bool) *problem.Problem {
	if !g.hosts.allow(r.Host) {
		return forbidden("this gateway does not answer to the Host %q, because a web page could otherwise reach it by a name of its own; "+
			"use localhost or 127.0.0.1, or start the gateway with --allow-host %[1]s", r.Host)
	}
	if g.allowsOrigin(r) {
		return nil
	}
	for _, origin := range r.Header.Values("Origin") {
		if !sameOrigin(origin, r.Host) {
			return forbidden("a page of %q may not call this gateway; if it is yours, start the gateway with --allow-origin %[1]s", origin)
		}
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && !crossSiteAllowed {
		return forbidden("the request comes from a page of another site; open the address directly, or start the gateway with " +
			"--allow-origin and the origin of that page")
	}
	return nil
}

// allowsOrigin reports whether the request comes from one of the allowed origins.
func (g *Guard) allowsOrigin(r *http.Request) bool {
	values := r.Header.Values("Origin")
	return len(values) == 1 && g.origins[strings.ToLower(values[0])]
}

func forbidden(format string, args ...any) *problem.Problem {
	p := problem.New(http.StatusForbidden, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, format, args...)
	return &p
}

// checkContentType refuses bodies that are not JSON: a form of any page can send other types without a preflight.
func checkContentType(r *http.Request) *problem.Problem {
	types := r.Header.Values("Content-Type")
	if len(types) == 0 && r.ContentLength == 0 { // -1, an unknown length, counts as a body
		return nil
	}
	if len(types) == 1 && isJSON(types[0]) {
		return nil
	}
	p := problem.New(http.StatusUnsupportedMediaType, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"the Content-Type is %q; send JSON with Content-Type: application/json, or neither body nor Content-Type", strings.Join(types, ", "))
	return &p
}

// checkPreconditions refuses preconditions of a change in headers, because the gateway does not evaluate them.
func checkPreconditions(r *http.Request) *problem.Problem {
	for _, name := range []string{"If-Match", "If-Unmodified-Since"} {
		if r.Header.Get(name) != "" {
			p := problem.New(http.StatusBadRequest, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
				"the gateway does not support %s; send the etag that you read in the field etag (PATCH: in the body, DELETE: ?etag=…)", name)
			return &p
		}
	}
	return nil
}

func isJSON(contentType string) bool {
	name, params, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(params["charset"])
	return err == nil && name == "application/json" && (charset == "" || charset == "utf-8")
}
