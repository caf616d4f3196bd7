package outbound

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

func wantRefused(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !e.Address || !strings.Contains(e.Message, "--allow-addresses") {
		t.Errorf("error = %v, want a refused address", err)
	}
}

func TestCheckedAddresses(t *testing.T) {
	r := newReach(Server{Allowed: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("fd12::/16")}})
	for address, want := range map[string]bool{
		"93.184.216.34:443": true, "[2606:4700::1]:443": true, "127.0.0.1:80": false, "[::1]:80": false, "10.1.2.3:80": false,
		"192.168.0.1:80": false, "172.16.0.1:80": false, "169.254.169.254:80": false, "[fe80::1%eth0]:80": false, "[fd00::1]:80": false,
		"100.100.100.200:80": false, "0.0.0.0:80": false, "[::ffff:127.0.0.1]:80": false, "[64:ff9b::7f00:1]:80": false,
		"224.0.0.1:80": false, "[ff02::1]:80": false, "[::]:80": false, "255.255.255.255:80": false, "[::127.0.0.1]:80": false,
		"[::ffff:0:127.0.0.1]:80": false, "[2002:7f00:1::]:80": false, "[fd00:ec2::254]:80": false, "nonsense": false,
		"10.9.1.1:80": true, "[::ffff:10.9.1.1]:80": true, "10.8.1.1:80": false, "[fd12::1]:80": true,
	} {
		if got := r.check(address) == nil; got != want {
			t.Errorf("%s: allowed %v, want %v", address, got, want)
		}
	}
}

// A name that resolves to a public address first and to a private one when it is dialled is refused: the dialled address is
// checked.
func TestRebindingNameIsRefused(t *testing.T) {
	var reached atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer web.Close()
	dns := rebinding(t, netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("127.0.0.1"))
	first, err := dns.LookupNetIP(t.Context(), "ip4", "rebind.example.")
	if err != nil || len(first) != 1 || !isPublic(first[0].Unmap()) {
		t.Fatalf("at first the name is %v, %v", first, err)
	}
	r := newReach(Server{Advice: "use --allow-addresses"})
	r.checked.Resolver = dns
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	c, err := r.dial(t.Context(), "tcp4", net.JoinHostPort("rebind.example.", port))
	if err == nil {
		c.Close()
	}
	wantRefused(t, err)
	if reached.Load() {
		t.Error("the server inside was reached")
	}
}

// rebinding is a resolver whose only name is the first address once, and the second from then on.
func rebinding(t *testing.T, first, then netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		for buf, now := make([]byte, 1500), first; ; now = then {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(answer(buf[:n], now), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answer is a DNS answer of one A record to a question (RFC 1035).
func answer(question []byte, a netip.Addr) []byte {
	end := 12
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	end += 5                                                  // the root, type and class
	out := append([]byte{}, question[:end]...)                // header and question
	copy(out[2:], []byte{0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0})    // an answer, of authority, with one record
	out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name of the question, A, IN, no TTL, 4 bytes
	return binary.BigEndian.AppendUint32(out, binary.BigEndian.Uint32(a.AsSlice()))
}

// Users must not learn which names exist inside: a name with a private address and one that does not exist give the same error, but for the operators'
// text.
func TestNamesInsideAreNotTold(t *testing.T) {
	inside := newReach(Server{Advice: "use --allow-addresses"})
	inside.checked.Resolver = rebinding(t, netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("10.1.2.3"))
	var texts []string
	for _, name := range []string{"vm.example.:80", "no-such-host.invalid:80"} {
		r := inside
		if strings.HasSuffix(name, ".invalid:80") {
			r = newReach(Server{Advice: "use --allow-addresses"})
		}
		_, err := r.dial(t.Context(), "tcp4", name)
		var e *Error
		if !errors.As(err, &e) || !e.Address {
			t.Fatalf("%s: %v", name, err)
		}
		texts = append(texts, e.PublicError())
	}
	if texts[0] != texts[1] || strings.Contains(texts[0], "10.1.2.3") {
		t.Errorf("the errors differ: %q", texts)
	}
}
