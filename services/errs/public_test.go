package errs_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

type refusal struct{}

func (refusal) Error() string       { return "10.1.2.3 is private" }
func (refusal) PublicError() string { return "the address is private" }

// TestPublic: addresses and absolute paths of the installation are left out, and nothing else.
func TestPublic(t *testing.T) {
	dial := func(cause error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 80}, Err: cause}
	}
	_, missing := os.Open(filepath.Join(t.TempDir(), "secret"))
	_, relative := os.Open("no-such-file")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a connection":       {dial(os.NewSyscallError("connect", errors.New("refused"))), "dial tcp: connect: refused"},
		"a request":          {&url.Error{Op: "Post", URL: "http://10.1.2.3/v1", Err: dial(refusal{})}, "Post: dial tcp: the address is private"},
		"a resolver":         {dial(&net.DNSError{Err: "no such host", Name: "x.test", Server: "10.0.0.53:53"}), "dial tcp: lookup x.test: no such host"},
		"an address":         {dial(refusal{}), "dial tcp: the address is private"},
		"a path":             {missing, "open: no such file or directory"},
		"a relative path":    {relative, relative.Error()},
		"a rename":           {&os.LinkError{Op: "rename", Old: "a", New: "/srv/b", Err: errors.New("denied")}, "rename: denied"},
		"a service":          {status.Error(codes.Unavailable, "transport: dial tcp 10.1.2.3:7413"), "a service of Pawl cannot be reached, or the connection to it was lost"},
		"two causes":         {fmt.Errorf("%w, %w", refusal{}, refusal{}), "the address is private, the address is private"},
		"nothing to conceal": {errors.New("the goal is missing"), "the goal is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			wrapped := fmt.Errorf("list: %w (again)", c.err)
			e := errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "it failed: %w", wrapped)
			if got, want := e.Public().Message, "it failed: list: "+c.want+" (again)"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := errs.PublicText(c.err); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := errs.From(c.err).Public().Message; !strings.HasSuffix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
