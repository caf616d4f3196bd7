package mcp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// statusPasses says which HTTP statuses may be over in a moment.
func statusPasses(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// networkPasses says whether a failure of the network may be over in a moment: not a name that does not exist, nor a certificate that
// nobody trusts.
func networkPasses(err error) bool {
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

// retryAfter reads how long a server wants to be left alone: seconds, or a date (RFC 9110, section 10.2.3).
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(header); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}
