package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

// protection is how the processes and their caller protect themselves on a network. The zero value is not at all.
type protection struct {
	keys   bool // callers have API keys, and budgets bound their requests
	jwt    bool // the caller has a signed token instead of a key
	tls    bool // all connections are encrypted
	mutual bool // callers show certificates, too
}

// network compares four processes without protection with the same processes on a network.
func (b *bench) network(ctx context.Context, d *document) {
	const level = 32
	kinds := []struct {
		name   string
		of     protection
		beside int // the index of what it is compared with
		target float64
	}{
		{"loopback: no keys, no TLS", protection{}, 0, 0},
		{"keys and budgets", protection{keys: true}, 0, 0.01},
		{"keys and budgets, TLS", protection{keys: true, tls: true}, 1, 0.05},
		{"keys and budgets, mutual TLS", protection{keys: true, tls: true, mutual: true}, 1, 0.08},
		{"JWT and budgets", protection{keys: true, jwt: true}, 1, 0.03},
	}
	var systems []*contender
	for _, k := range kinds {
		l := fourProcesses
		l.protection = k.of
		c := b.startPawl(ctx, l).contender(stepsPerTask, l.echo())
		c.name = k.name
		systems = append(systems, c)
	}
	rounds, each := b.rounds, b.each
	b.rounds, b.each = 4*rounds, each/3 // a cost of a few percent shows in many rounds only
	b.inTurns(ctx, systems, []int{level})
	b.rounds, b.each = rounds, each
	var rows [][]string
	for i, k := range kinds {
		c, base := systems[i], systems[k.beside]
		row := []string{k.name, figure(c.of(level, perSecond)), figure(c.of(level, p50)), figure(c.sumOf(level, cpuFor)), none, none, none, none}
		if i > 0 {
			cost := 1 - c.beside(base, level, perSecond)
			row[4], row[5] = base.name, fmt.Sprintf("%.1f %%", cost*100)
			row[6], row[7] = fmt.Sprintf("≤ %.0f %%", k.target*100), map[bool]string{true: "yes", false: "no"}[cost <= k.target]
		}
		rows = append(rows, row)
	}
	d.text("Tasks of ten steps, %d at once, in four processes with a stdio tool, as in the whole suite. Each kind has processes of its own, and one caller. A cost is the median of the rounds' costs.", level)
	d.table([]string{"", "tasks/s", "p50, ms", "CPU s per 1,000 steps", "beside", "costs", "target", "reached"}, rows)
}

// network has the flags, credentials and certificates of protected processes.
type network struct {
	protection
	certs string   // folder of certificates; "" if there are none
	flags []string // of each process
	key   string   // of the services; "" if there are no keys
	token string   // of the caller
}

// protect prepares a protection; its issuer of tokens serves until the measurement ends.
func (b *bench) protect(ctx context.Context, p protection) network {
	n := network{protection: p}
	if p.keys {
		path := filepath.Join(b.folder(), "keys.yaml")
		file := must(identity.OpenKeyFile(path))
		add := func(sub string, role identity.Role) string {
			token, _, err := file.Add(identity.Key{Sub: sub, Roles: []identity.Role{role}})
			check(err)
			return token
		}
		n.flags, n.token, n.key = []string{"--keys", path}, add("bench", identity.RoleUser), add("services", identity.RoleService)
	}
	if p.jwt {
		n.token = b.startIssuer(&n)
	}
	if p.tls {
		n.certs = b.folder()
		b.command(ctx, b.work, b.program("pawl"), "certs", "dev", "--force", n.certs)
	}
	return n
}

// startIssuer starts an OpenID Connect provider, adds it to the flags, and returns a token.
func (b *bench) startIssuer(n *network) (token string) {
	key := must(rsa.GenerateKey(rand.Reader, 2048))
	provider := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: "RS256"}}}
	web := httptest.NewServer(provider)
	b.atEnd(func() error { web.Close(); return nil })
	provider.SetIssuer(web.URL)
	path := filepath.Join(b.folder(), "issuers.yaml")
	check(os.WriteFile(path, fmt.Appendf(nil, "issuers:\n- issuer: %s\n  audience: pawl\n", web.URL), 0o600))
	n.flags = append(n.flags, "--oidc", path)
	return oidctest.SignIDToken(key, "k", "RS256", fmt.Sprintf(`{"iss":%q,"aud":"pawl","sub":"bench","exp":%d}`, web.URL, time.Now().Add(time.Hour).Unix()))
}

// file returns the path of a file of certificates.
func (n network) file(name string) string { return filepath.Join(n.certs, name+".pem") }

// of returns the flags of a process. Those that call others have a service's key.
func (n network) of(name string, calls bool) []string {
	flags := append([]string(nil), n.flags...)
	if calls && n.key != "" {
		flags = append(flags, "--service-key", n.key)
	}
	if n.tls {
		flags = append(flags, "--tls-cert", n.file(name), "--tls-key", n.file(name+"-key"))
	}
	if n.mutual {
		flags = append(flags, "--tls-ca", n.file("ca"))
	}
	return flags
}

// env returns the environment in which processes trust the certificates without mutual TLS.
func (n network) env() []string {
	if !n.tls {
		return nil
	}
	return []string{"SSL_CERT_FILE=" + n.file("ca")}
}

// address returns how a process dials another one.
func (n network) address(addr string) string {
	if n.tls {
		return "https://" + addr
	}
	return addr
}

// client returns the certificates of the caller; nil without TLS.
func (n network) client() *serve.Certificates {
	switch {
	case n.mutual:
		return must(serve.TLS{Cert: n.file("client"), Key: n.file("client-key"), CA: n.file("ca")}.Open(nil))
	case n.tls:
		return must(serve.TLS{CA: n.file("ca")}.Open(nil))
	}
	return nil
}
