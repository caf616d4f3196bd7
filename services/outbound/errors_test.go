package outbound

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"
)

func TestIsTransient(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{syscall.ECONNREFUSED, true},
		{fmt.Errorf("dial: %w", syscall.ECONNRESET), true},
		{&net.DNSError{IsNotFound: true}, false},
		{&net.DNSError{IsTimeout: true}, true},
		{fmt.Errorf("tls: %w", x509.UnknownAuthorityError{}), false},
		{errors.New("unexpected EOF"), true},
		{nil, false},
	} {
		if got := IsTransient(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "-3": 0, "soon": 0, "99999999999": 0,
		"Fri, 02 Jan 2026 03:04:15 GMT": 10 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": 0,
	} {
		if got := RetryAfter(header, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}
