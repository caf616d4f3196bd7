package peer

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// maxAtOnce bounds the concurrent requests of other replicas; each may hold a page in memory.
const maxAtOnce = 16

// server implements McpPoolPeerService.
type server struct {
	mcppoolv1.UnsafeMcpPoolPeerServiceServer
	set *Set
}

// enter admits a replica's request if its key matches.
func (s *server) enter(ctx context.Context, hello *mcppoolv1.PeerHello) (leave func(), err error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	if !p.Has(identity.RoleService) {
		return nil, errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
			"only a key with role %q may speak for a replica of the MCP pool", identity.RoleService)
	}
	if err := s.set.suits(hello); err != nil {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "%w", err).With(keyDiffers, "true")
	}
	select {
	case s.set.answering <- struct{}{}:
		return func() { <-s.set.answering }, nil
	default:
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"this replica answers %d requests of others already; ask again", maxAtOnce)
	}
}

// PushEntries implements McpPoolPeerService.
func (s *server) PushEntries(ctx context.Context, req *mcppoolv1.PushEntriesRequest) (*mcppoolv1.PushEntriesResponse, error) {
	leave, err := s.enter(ctx, req.GetHello())
	if err != nil {
		return nil, err
	}
	defer leave()
	if req.GetHello().GetReplica() == s.set.store.ID() {
		return &mcppoolv1.PushEntriesResponse{Hello: s.set.hello()}, nil
	}
	s.set.heardOf(req.GetHello().GetReplica())
	if _, err := s.set.take(req.GetHello(), req.GetBatch()); err != nil {
		code, reason := codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST
		if errors.Is(err, replica.ErrAhead) {
			code = codes.FailedPrecondition
		}
		return nil, errs.New(code, reason, "%w", err)
	}
	return &mcppoolv1.PushEntriesResponse{Hello: s.set.hello()}, nil
}

// PullEntries implements McpPoolPeerService.
func (s *server) PullEntries(ctx context.Context, req *mcppoolv1.PullEntriesRequest) (*mcppoolv1.PullEntriesResponse, error) {
	leave, err := s.enter(ctx, req.GetHello())
	if err != nil {
		return nil, err
	}
	defer leave()
	if req.GetHello().GetReplica() == s.set.store.ID() {
		return &mcppoolv1.PullEntriesResponse{Hello: s.set.hello(), Batch: &mcppoolv1.PeerBatch{}}, nil // the request came from this replica
	}
	s.set.heardOf(req.GetHello().GetReplica())
	page, err := s.set.store.Since(req.GetRun(), req.GetAfter())
	if err != nil {
		return nil, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR, "reading what replicas are told: %w", err)
	}
	batch, err := s.set.sealer.batch(s.set.store.ID(), toMessage(page.Entries))
	if err != nil {
		return nil, err
	}
	return &mcppoolv1.PullEntriesResponse{Hello: s.set.hello(), Batch: batch, Run: page.Run, Next: page.Next, More: page.More}, nil
}

func (s *Set) hello() *mcppoolv1.PeerHello {
	return &mcppoolv1.PeerHello{Replica: s.store.ID(), Time: timestamppb.New(s.cfg.Now()), KeyCheck: s.sealer.check}
}

// suits returns a keyMismatchError if a replica's key differs.
func (s *Set) suits(hello *mcppoolv1.PeerHello) error {
	switch theirs := hello.GetKeyCheck(); {
	case theirs == s.sealer.check:
		return nil
	case theirs == "":
		return keyMismatchError("the one replica has a --token-key, and the other none: give all of them the same")
	case s.sealer.check == "":
		return keyMismatchError("the one replica has no --token-key, and the other one: give all of them the same")
	default:
		return keyMismatchError("the two replicas have different keys (--token-key): give all of them the same")
	}
}

// take merges what another replica sent.
func (s *Set) take(hello *mcppoolv1.PeerHello, batch *mcppoolv1.PeerBatch) (int, error) {
	message, err := s.sealer.open(hello.GetReplica(), batch)
	if err != nil {
		return 0, err
	}
	entries, err := fromMessage(message)
	if err != nil {
		return 0, err
	}
	return s.store.Merge(entries)
}
