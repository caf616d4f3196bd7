package outbound

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Passes reports whether a failure of the network may be over in a moment: not a name that does not exist, nor a
// certificate that is not trusted.
func Passes(err error) bool {
	var (
		name   *net.DNSError
		cert   *tls.CertificateVerificationError
		issuer x509.UnknownAuthorityError
		record tls.RecordHeaderError
	)
	switch {
	case err == nil:
		return false
	case errors.As(err, &name):
		return !name.IsNotFound
	case errors.As(err, &cert), errors.As(err, &issuer), errors.As(err, &record):
		return false
	}
	return true
}

// RetryAfter reads the Retry-After header: seconds, or a date (RFC 9110, section 10.2.3).
func RetryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(header); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}
