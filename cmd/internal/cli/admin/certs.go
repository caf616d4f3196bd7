package admin

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pawl.dev/cmd/internal/ui"
	"pawl.dev/services/privatefile"
)

// CertsCmd is `pawl certs`.
type CertsCmd struct {
	Dev CertsDevCmd `cmd:"" group:"sub" help:"Make a certificate authority of your own, and certificates for all processes."`
}

// CertsDevCmd is `pawl certs dev`.
type CertsDevCmd struct {
	Dir   string   `arg:"" type:"path" help:"Folder for the files; it is created if it does not exist."`
	Host  []string `sep:"none" placeholder:"HOST" help:"Host name or IP address of the servers, besides localhost (repeatable)."`
	Force bool     `help:"Replace the certificates that exist. The authority stays, so that running processes accept the new ones."`
}

const (
	authorityFor   = 10 * 365 * 24 * time.Hour
	certificateFor = 365 * 24 * time.Hour
)

// holders are the processes that get a certificate. The client is the command line, which serves nothing.
var holders = []string{"planner", "executor", "pool", "gateway", "client"}

// Run makes the files and prints the commands that use them.
func (c *CertsDevCmd) Run(u *ui.UI) error {
	for _, name := range holders {
		if _, err := os.Stat(c.file(name)); err == nil && !c.Force {
			return ui.Errorf("%s exists already", c.file(name)).Then("another folder, or --force to replace the certificates in %s", c.Dir)
		}
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil { //nolint:gosec // other users need ca.pem; the keys are private
		return ui.Errorf("make the folder of the certificates: %v", err)
	}
	authority, err := c.authority()
	if err != nil {
		return ui.Errorf("%v", err)
	}
	for _, name := range holders {
		if err := c.issue(authority, name, c.template(name)); err != nil {
			return ui.Errorf("%v", err)
		}
	}
	files := map[string]string{"ca": c.file("ca")}
	for _, name := range holders {
		files[name], files[name+"Key"] = c.file(name), c.file(name+"-key")
	}
	return u.Show(files, nil, c.commands)
}

func (c *CertsDevCmd) file(name string) string { return filepath.Join(c.Dir, name+".pem") }

// authority returns the authority of the folder. It makes one if there is none.
func (c *CertsDevCmd) authority() (*tls.Certificate, error) {
	if _, err := os.Stat(c.file("ca")); errors.Is(err, fs.ErrNotExist) {
		err := c.issue(nil, "ca", &x509.Certificate{
			Subject: pkix.Name{CommonName: "Pawl development authority"}, NotAfter: time.Now().Add(authorityFor),
			IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		})
		if err != nil {
			return nil, err
		}
	}
	pair, err := tls.LoadX509KeyPair(c.file("ca"), c.file("ca-key"))
	if err != nil {
		return nil, fmt.Errorf("load the certificate authority of %s: %w", c.Dir, err)
	}
	return &pair, nil
}

// template returns the certificate of a process. Its own name comes first, for --tls-client-name.
func (c *CertsDevCmd) template(name string) *x509.Certificate {
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: "pawl " + name}, NotAfter: time.Now().Add(certificateFor), DNSNames: []string{name},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if name == "client" {
		return t
	}
	t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	for _, host := range append([]string{"localhost", "127.0.0.1", "::1"}, c.Host...) {
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	return t
}

// issue signs a certificate for a new key and writes both. With a nil authority the key signs it itself.
func (c *CertsDevCmd) issue(authority *tls.Certificate, name string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	parent, signer := template, crypto.PrivateKey(key)
	if authority != nil {
		parent, signer = authority.Leaf, authority.PrivateKey
	}
	template.NotBefore = time.Now().Add(-5 * time.Minute) // for clocks that are late
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key of %s: %w", name, err)
	}
	if err := c.write(name+"-key", "PRIVATE KEY", der); err != nil {
		return err
	}
	if err := c.write(name, "CERTIFICATE", cert); err != nil {
		return err
	}
	if err := os.Chmod(c.file(name), 0o644); err != nil { //nolint:gosec // certificates are public, and other users' clients need that of the authority
		return fmt.Errorf("make the certificate of %s readable: %w", name, err)
	}
	return nil
}

func (c *CertsDevCmd) write(name, kind string, der []byte) error {
	return privatefile.Write(c.file(name), func(w io.Writer) error { return pem.Encode(w, &pem.Block{Type: kind, Bytes: der}) })
}

// commands returns the commands that start four processes with mutual TLS, and that use them.
func (c *CertsDevCmd) commands() string {
	flags := func(name string) string {
		return fmt.Sprintf("--tls-cert %s --tls-key %s --tls-ca %s", c.file(name), c.file(name+"-key"), c.file("ca"))
	}
	callers := func(names ...string) string {
		return " --tls-client-name " + strings.Join(names, " --tls-client-name ")
	}
	const host = "https://localhost:"
	return strings.Join([]string{
		"# API keys: yours, and that with which the executor and the pool act for users; without keys every caller would be an operator",
		"export PAWL_KEY=$(pawl keys add me --role user --role operator --keys keys.yaml)",
		"export PAWL_SERVICE_KEY=$(pawl keys add services --role service --keys keys.yaml)",
		"# each process has a certificate and accepts those of its callers",
		"planner-svc --keys keys.yaml " + flags("planner") + callers("executor", "pool", "gateway", "client"),
		"mcppool-svc --data ./data --keys keys.yaml " + flags("pool") + callers("executor", "pool", "gateway", "client"),
		"executor-svc --data ./data --keys keys.yaml " + flags("executor") + callers("gateway", "client"),
		"gateway --authenticated " + flags("gateway"),
		"# the command line and REST",
		fmt.Sprintf("pawl --server %s7412 --ca %s --client-cert %s --client-key %s tasks", host, c.file("ca"), c.file("client"), c.file("client-key")),
		fmt.Sprintf("curl --cacert %s -H \"Authorization: Bearer $PAWL_KEY\" %s7410/v1/tasks", c.file("ca"), host),
		"# or all in one process, without client certificates",
		fmt.Sprintf("pawl up --keys keys.yaml --tls-cert %s --tls-key %s", c.file("gateway"), c.file("gateway-key")),
		fmt.Sprintf("pawl tasks --ca %s", c.file("ca")),
		"# for other machines, give their names for the servers here with --host NAME, and the processes addresses such as --http 0.0.0.0:7410\n",
	}, "\n")
}
