package errs

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// unreachable replaces gRPC's own errors, which name the addresses of services.
const unreachable = "a service of Pawl cannot be reached, or the connection to it was lost"

// Public returns the error as it is shown to users who do not operate the installation: without the addresses that it dials, and without absolute
// paths of files. It replaces the texts of the causes that have them: errors of the network and of files, gRPC's own errors, and those with a method
// PublicError() string.
func (e *Error) Public() *Error {
	c := *e
	c.Message = publicText(e.Message, e.cause)
	return &c
}

// PublicText returns the text of an error as Public does.
func PublicText(err error) string { return publicText(err.Error(), err) }

// publicText replaces the texts of err and its causes in text.
func publicText(text string, err error) string {
	if err == nil {
		return text
	}
	if own := publicError(err); own != "" {
		text = strings.ReplaceAll(text, err.Error(), own)
		if st := status.Convert(err); st.Message() != "" { // From leaves out gRPC's prefix
			text = strings.ReplaceAll(text, st.Message(), own)
		}
		return text
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, cause := range several.Unwrap() {
			text = publicText(text, cause)
		}
		return text
	}
	return publicText(text, errors.Unwrap(err))
}

// publicError returns the public text of an error of a type that has details, without its causes; else "".
func publicError(err error) string {
	switch e := err.(type) { //nolint:errorlint // publicText goes through the causes
	case interface{ PublicError() string }:
		return e.PublicError()
	case *net.OpError:
		return e.Op + " " + e.Net + ": " + PublicText(e.Err)
	case *url.Error:
		if e.Op != "parse" { // the address of a request
			return e.Op + ": " + PublicText(e.Err)
		}
	case *net.DNSError:
		c := *e
		c.Server = ""
		return c.Error()
	case *fs.PathError:
		return withoutPaths(e.Op, e.Err, e.Path)
	case *os.LinkError:
		return withoutPaths(e.Op, e.Err, e.Old, e.New)
	case interface{ GRPCStatus() *status.Status }:
		if st := e.GRPCStatus(); st.Code() == codes.Unavailable && len(st.Details()) == 0 {
			return unreachable
		}
	}
	return ""
}

func withoutPaths(op string, err error, paths ...string) string {
	for _, p := range paths {
		if filepath.IsAbs(p) {
			return op + ": " + PublicText(err)
		}
	}
	return ""
}
