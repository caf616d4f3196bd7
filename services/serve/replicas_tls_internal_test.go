package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tests"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour),
	}}
	a.cert, a.key = a.sign(t, a.cert)
	return a
}

func (a *authority) sign(t *testing.T, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// pool has the certificates that clients trust.
func (a *authority) pool() credentials.TransportCredentials {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return credentials.NewTLS(&tls.Config{RootCAs: roots})
}

// serveTLS is a replica at an address, with a certificate for hosts.
func (a *authority) serveTLS(t *testing.T, addr string, ips []net.IP, names ...string) string {
	t.Helper()
	cert, key := a.sign(t, &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: ips, DNSNames: names})
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Skipf("this machine has no %s: %v", addr, err)
	}
	srv := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key})))
	healthpb.RegisterHealthServer(srv, health.NewServer())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(lis)
	}()
	t.Cleanup(func() {
		srv.Stop()
		<-done
	})
	return lis.Addr().String()
}

// ask calls the replica that an affinity leads to, and returns its name.
func ask(t *testing.T, c grpc.ClientConnInterface, parts ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var to peer.Peer
	_, err := healthpb.NewHealthClient(c).Check(WithAffinity(ctx, parts...), &healthpb.HealthCheckRequest{}, grpc.Peer(&to))
	if err != nil {
		return "", err
	}
	return to.Addr.String(), nil
}

func ips(addr string) []net.IP { return []net.IP{net.ParseIP(addr)} }

// secured dials over TLS, trusting one authority.
func (a *authority) secured(t *testing.T, addr string) *Replicas {
	t.Helper()
	conn, err := dialReplicas(addr, dialOptions("", a.pool()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// reachable calls replicas until each of them answered or a call failed; it returns those that answered, and the failure.
func reachable(t *testing.T, conn *Replicas, want int) (map[string]bool, error) {
	t.Helper()
	seen := map[string]bool{}
	for i := range 500 {
		at, err := ask(t, conn, "user", string(rune('a'+i%26)), string(rune('a'+i/26)))
		if err != nil {
			return seen, err
		}
		if seen[at] = true; len(seen) == want {
			break
		}
	}
	return seen, nil
}

// Each replica of a list proves the name that it has in the list, and no other.
func TestReplicasProveTheirOwnNames(t *testing.T) {
	a := newAuthority(t)
	first := a.serveTLS(t, "127.0.0.1:0", ips("127.0.0.1"))
	right := a.serveTLS(t, "127.0.0.2:0", ips("127.0.0.2"))
	wrong := a.serveTLS(t, "127.0.0.2:0", ips("127.0.0.1")) // the first one's name
	named := a.serveTLS(t, "127.0.0.1:0", nil, "localhost")
	_, port, err := net.SplitHostPort(named)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("right", func(t *testing.T) {
		seen, err := reachable(t, a.secured(t, first+","+right), 2)
		if err != nil || !seen[first] || !seen[right] {
			t.Errorf("reached %v, %v", seen, err)
		}
	})
	t.Run("a name and an address", func(t *testing.T) {
		seen, err := reachable(t, a.secured(t, "localhost:"+port+","+right), 2)
		if err != nil || !seen[named] || !seen[right] {
			t.Errorf("reached %v, %v", seen, err)
		}
	})
	t.Run("wrong", func(t *testing.T) {
		conn := a.secured(t, first+","+wrong)
		if seen, _ := reachable(t, conn, 2); seen[wrong] {
			t.Error("a replica is taken that proved to be another one")
		}
		direct, err := conn.At(wrong)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = direct.Close() }()
		if _, err := ask(t, direct); err == nil || !strings.Contains(err.Error(), "not 127.0.0.2") {
			t.Errorf("asked directly it says %v", err)
		}
		if seen, err := reachable(t, a.secured(t, wrong+","+right), 2); seen[wrong] {
			t.Errorf("as the first of the list it is taken: %v", err)
		}
	})
	t.Run("another authority", func(t *testing.T) {
		conn := newAuthority(t).secured(t, first+","+right)
		if _, err := ask(t, conn); err == nil {
			t.Error("a replica of another authority is taken")
		}
	})
}

// Replicas behind one name in the DNS prove to be that name, even if one of them is called by its address.
func TestReplicasOfANameProveThatName(t *testing.T) {
	a := newAuthority(t)
	addr := a.serveTLS(t, "127.0.0.1:0", nil, "localhost")
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	conn := a.secured(t, "dns:///localhost:"+port)
	if at, err := ask(t, conn, "x"); err != nil || at != addr {
		t.Errorf("reached %s, %v", at, err)
	}
	direct, err := conn.At(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = direct.Close() }()
	if at, err := ask(t, direct); err != nil || at != addr {
		t.Errorf("asked directly: %s, %v", at, err)
	}
}
