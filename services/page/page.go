// Package page makes page tokens. They are opaque to clients and bound to a query: the token of one list cannot be used
// for another. The package knows no list and no store.
package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

const (
	version   = 1
	hashBytes = 8 // enough to tell queries apart; forging a token is no gain, because every page is checked like the first
)

// Encode makes the token that continues after key. Scope names the query: method, caller and every filter.
func Encode(scope string, key []byte) string {
	return base64.RawURLEncoding.EncodeToString(slices.Concat([]byte{version}, scopeHash(scope), key))
}

// Decode returns the key that Encode got. For the empty token, which requests the first page, it returns nil. A token that
// was not made for this scope is INVALID_REQUEST.
func Decode(scope, token string) ([]byte, error) {
	if token == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || strings.ContainsAny(token, "\r\n") || len(b) < 1+hashBytes || b[0] != version || !bytes.Equal(b[1:1+hashBytes], scopeHash(scope)) {
		const what = "page_token is not one of this list; start again without it"
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, what).
			WithViolation("page_token", "is not one of this list")
	}
	return b[1+hashBytes:], nil
}

func scopeHash(scope string) []byte {
	sum := sha256.Sum256([]byte(scope))
	return sum[:hashBytes]
}
