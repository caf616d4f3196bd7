package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
	"pawl.dev/services/page"
)

// defaultListed is the page size of what servers list beside tools, where the caller names none.
const defaultListed = 100

// listRequest asks for a page of a server's list.
type listRequest interface {
	GetMcpId() string
	GetPageToken() string
	GetPageSize() int32
}

// list returns one page of a server's list, in the server's order.
func list[T proto.Message](ctx context.Context, s *Server, req listRequest, of mcp.List, read func(json.RawMessage) (T, error), id func(T) string) ([]T, string, error) {
	use, err := s.use(ctx, req.GetMcpId())
	if err != nil {
		return nil, "", err
	}
	entries, err := s.Caller.ListOffers(ctx, use, of)
	if err != nil {
		return nil, "", err
	}
	l := listed[T]{strings.Join([]string{of.String(), use.User, use.Server.UID}, "\x00"), entries, read, id}
	return l.page(req.GetPageToken(), int(cmp.Or(req.GetPageSize(), defaultListed)))
}

// listed is a list of a server that is shown by pages.
type listed[T proto.Message] struct {
	scope   string
	entries []json.RawMessage
	read    func(json.RawMessage) (T, error)
	id      func(T) string
}

// page reads the entries of one page, and no others.
func (l listed[T]) page(token string, size int) (out []T, next string, err error) {
	start, err := l.start(token)
	if err != nil {
		return nil, "", err
	}
	bytes := 0
	for i := start; i < len(l.entries); i++ {
		bytes += len(l.entries[i])
		if len(out) == size || len(out) > 0 && bytes > maxPageBytes {
			return out, page.Encode(l.scope, fmt.Appendf(nil, "%d %s", i, l.id(out[len(out)-1]))), nil
		}
		entry, err := l.read(l.entries[i])
		if err != nil {
			return nil, "", errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
				"entry %d of the server's list cannot be used: %w", i+1, err)
		}
		out = append(out, entry)
	}
	return out, "", nil
}

// start is where the page of a token begins: after the entry that was the last one of the page before, wherever it is by now.
func (l listed[T]) start(token string) (int, error) {
	key, err := page.Decode(l.scope, token)
	if err != nil || key == nil {
		return 0, err
	}
	index, last, _ := strings.Cut(string(key), " ")
	at, err := strconv.Atoi(index)
	if err == nil && at > 0 && at <= len(l.entries) && l.is(l.entries[at-1], last) {
		return at, nil
	}
	for i, entry := range l.entries {
		if l.is(entry, last) {
			return i + 1, nil
		}
	}
	return 0, invalid("page_token", "the server's list changed since, and what the last page ended with is gone; start again without it")
}

func (l listed[T]) is(entry json.RawMessage, id string) bool {
	m, err := l.read(entry)
	return err == nil && l.id(m) == id
}
