package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"pawl.dev/services/privatefile"
)

// TLS are the TLS flags of every process. The zero value means no TLS.
type TLS struct {
	Cert        string   `name:"tls-cert" placeholder:"FILE" type:"path" help:"Certificate of this process (PEM, followed by intermediate ones): the listeners use TLS. The files of all --tls flags are read again when they change."`
	Key         string   `name:"tls-key" placeholder:"FILE" type:"path" help:"Private key of --tls-cert (PEM)."`
	CA          string   `name:"tls-ca" placeholder:"FILE" type:"path" help:"Certificate authorities (PEM) of the other services: connections to them use TLS, and gRPC callers need a certificate from these authorities (see --tls-client-auth). HTTP callers do not."`
	ClientAuth  string   `name:"tls-client-auth" placeholder:"MODE" enum:"require,none" default:"require" help:"With none, gRPC callers need no certificate, and --tls-ca is only for connections to other services: require or none (${default})."`
	ClientNames []string `name:"tls-client-name" placeholder:"NAME" help:"A DNS name or URI. With this flag, a gRPC caller's certificate must contain one of the names; without it, every certificate from --tls-ca is accepted. May be repeated."`
	MinVersion  string   `name:"tls-min-version" placeholder:"VERSION" enum:"1.2,1.3" default:"1.3" help:"Oldest TLS version to speak: 1.2 or 1.3 (${default})."`
	Insecure    bool     `name:"insecure" help:"Listen on addresses other than loopback without TLS: API keys and all data cross the network readable."`
}

// noClientAuth is the ClientAuth with which callers need no certificate.
const noClientAuth = "none"

// Scheme returns the scheme of the process's addresses: https, or http without TLS.
func (t TLS) Scheme() string {
	if t.Cert != "" {
		return "https"
	}
	return "http"
}

// Certificates are the certificate, private key and certificate authorities of a process. Each handshake uses the newest files. If those cannot
// be used, the error is logged and the previous ones stay in force. Nil means no TLS, except for dialled addresses that begin with https://.
type Certificates struct {
	flags TLS
	log   *slog.Logger

	mu      sync.Mutex
	checked time.Time        // when the files were last read
	files   [3]string        // the contents that were read last, valid or not
	pair    *tls.Certificate // nil: none
	roots   *x509.CertPool   // nil: those of the system
	refused time.Time        // when a refused connection was last logged
}

// Open reads the files, so that their errors show at start. It returns nil if no file is named. log may be nil.
func (t TLS) Open(log *slog.Logger) (*Certificates, error) {
	switch {
	case (t.Cert == "") != (t.Key == ""):
		return nil, errors.New("a certificate and its private key must be given together")
	case len(t.ClientNames) > 0 && t.ClientAuth == noClientAuth:
		return nil, errors.New("--tls-client-name has no effect with --tls-client-auth none; leave one of them out")
	case len(t.ClientNames) > 0 && (t.CA == "" || t.Cert == ""):
		return nil, errors.New("--tls-client-name needs --tls-cert, --tls-key and --tls-ca: without them callers have no certificates")
	case t.Cert == "" && t.CA == "":
		return nil, nil
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	privatefile.WarnIfOthers(log, t.Key, 0o004, "other users of this machine may read the private key of the TLS certificate")
	c := &Certificates{flags: t, log: log, checked: time.Now()}
	return c, c.load(t.read())
}

// read returns the contents of the certificate, the key and the authorities, "" for those that are not configured or cannot be read.
func (t TLS) read() (files [3]string, err error) {
	for i, path := range []string{t.Cert, t.Key, t.CA} {
		if path != "" {
			raw, failed := os.ReadFile(path)
			files[i], err = string(raw), errors.Join(err, failed)
		}
	}
	return files, err
}

// load uses the result of read. If it cannot be used, the certificates stay as they are. The caller holds mu, or c is not shared yet.
func (c *Certificates) load(files [3]string, err error) error {
	c.files = files
	if err != nil {
		return fmt.Errorf("read the TLS files: %w", err)
	}
	var pair *tls.Certificate
	if c.flags.Cert != "" {
		loaded, err := tls.X509KeyPair([]byte(files[0]), []byte(files[1]))
		if err != nil {
			return fmt.Errorf("the TLS certificate %s with the key %s: %w", c.flags.Cert, c.flags.Key, err)
		}
		if end := loaded.Leaf.NotAfter; time.Now().After(end) {
			return fmt.Errorf("the TLS certificate %s has expired at %s; renew it", c.flags.Cert, end.Format(time.RFC3339))
		}
		pair = &loaded
	}
	var roots *x509.CertPool
	if c.flags.CA != "" {
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM([]byte(files[2])) {
			return fmt.Errorf("the file of certificate authorities %s has no certificate in PEM format", c.flags.CA)
		}
	}
	c.pair, c.roots = pair, roots
	return nil
}

// readFilesEvery is the least time between two readings of the files.
const readFilesEvery = time.Second

// current returns the newest usable certificate and authorities. c may be nil.
func (c *Certificates) current() (*tls.Certificate, *x509.CertPool) {
	if c == nil {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.checked) >= readFilesEvery {
		c.checked = now
		if files, err := c.flags.read(); files != c.files {
			if err := c.load(files, err); err != nil {
				c.log.Warn("the new TLS files cannot be used; the previous ones stay in force", "error", err)
			} else {
				c.log.Info("the TLS files have changed; new connections use the new ones")
			}
		}
	}
	return c.pair, c.roots
}

func (c *Certificates) minVersion() uint16 {
	if c != nil && c.flags.MinVersion == "1.2" {
		return tls.VersionTLS12
	}
	return tls.VersionTLS13
}

// config returns the configuration of a listener. If mutual is set and there are authorities, callers need a certificate from them. Sessions are
// then not resumed, because a resumed session would skip newer authorities.
func (c *Certificates) config(mutual bool, protocols ...string) *tls.Config {
	return &tls.Config{MinVersion: c.minVersion(), GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair, roots := c.current()
		config := &tls.Config{MinVersion: c.minVersion(), Certificates: []tls.Certificate{*pair}, NextProtos: protocols}
		if mutual && roots != nil && c.flags.ClientAuth != noClientAuth {
			config.ClientAuth, config.ClientCAs, config.VerifyConnection = tls.RequireAndVerifyClientCert, roots, c.checkName
			config.SessionTicketsDisabled = true
		}
		return config, nil
	}}
}

// checkName refuses a caller whose certificate has none of the configured names.
func (c *Certificates) checkName(s tls.ConnectionState) error {
	var names []string
	for _, uri := range s.PeerCertificates[0].URIs {
		names = append(names, uri.String())
	}
	names = append(names, s.PeerCertificates[0].DNSNames...)
	isAllowed := func(name string) bool {
		return slices.ContainsFunc(c.flags.ClientNames, func(n string) bool { return strings.EqualFold(n, name) })
	}
	if len(c.flags.ClientNames) == 0 || slices.ContainsFunc(names, isAllowed) {
		return nil
	}
	return fmt.Errorf("the caller's certificate is for %q, and --tls-client-name allows %q", names, c.flags.ClientNames)
}

// Listener returns a listener for HTTP over TLS on lis, or lis itself if c is nil or has no certificate.
func (c *Certificates) Listener(lis net.Listener) net.Listener {
	if c == nil || c.flags.Cert == "" {
		return lis
	}
	return tls.NewListener(lis, c.config(false, "h2", "http/1.1"))
}

// transport is gRPC's TLS with the newest certificates.
type transport struct {
	credentials.TransportCredentials // of the server; a client uses it only for its Info
	certs                            *Certificates
}

func (c *Certificates) clientCredentials() credentials.TransportCredentials {
	return transport{credentials.NewTLS(&tls.Config{MinVersion: c.minVersion()}), c}
}

func (c *Certificates) serverCredentials() credentials.TransportCredentials {
	return transport{credentials.NewTLS(c.config(true)), c}
}

// ClientHandshake implements credentials.TransportCredentials.
func (t transport) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	pair, roots := t.certs.current()
	config := &tls.Config{MinVersion: t.certs.minVersion(), RootCAs: roots}
	if pair != nil {
		config.Certificates = []tls.Certificate{*pair}
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
}

// ServerHandshake implements credentials.TransportCredentials. It logs why a connection is refused, because the caller only learns the kind of
// the fault; at most once a second, because anyone can connect.
func (t transport) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	lingering := &lingeringConn{Conn: raw}
	conn, info, err := t.TransportCredentials.ServerHandshake(lingering)
	lingering.established.Store(err == nil)
	if err != nil && !errors.Is(err, io.EOF) { // EOF: a probe connects and closes
		t.certs.mu.Lock()
		defer t.certs.mu.Unlock()
		if now := time.Now(); now.Sub(t.certs.refused) >= time.Second {
			t.certs.refused = now
			t.certs.log.Warn("a TLS connection was refused", "from", raw.RemoteAddr().String(), "error", err)
		}
	}
	return conn, info, err
}

// lingeringConn is a connection that lets the other side read the TLS alert if the handshake fails. Closed at once, the connection would be reset,
// and the other side might see nothing but that.
type lingeringConn struct {
	net.Conn
	established atomic.Bool
}

func (l *lingeringConn) Close() error {
	half, ok := l.Conn.(interface{ CloseWrite() error })
	if ok && !l.established.Load() && half.CloseWrite() == nil {
		_ = l.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.CopyN(io.Discard, l.Conn, 64<<10)
	}
	return l.Conn.Close()
}

// Clone implements credentials.TransportCredentials.
func (t transport) Clone() credentials.TransportCredentials {
	return transport{t.TransportCredentials.Clone(), t.certs}
}
