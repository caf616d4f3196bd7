package runner

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/toolcall"
)

// Replicas connects to single replicas (processes) of the MCP pool. Because replicas come and go, a request that is routed by server and user
// may not reach the replica that made a call.
type Replicas interface {
	// Addrs returns the known addresses of all replicas.
	Addrs(ctx context.Context) ([]string, error)
	// At connects to one replica. The caller closes the connection.
	At(addr string) (*grpc.ClientConn, error)
}

const (
	// replicaPatience is how long the session retries replicas that cannot be reached, to get the outcome of a call. After that the outcome
	// is unknown.
	replicaPatience = 3 * time.Second
	// replicaTimeout bounds finding the replicas, and cancelling or answering a call at one of them.
	replicaTimeout = 2 * time.Second
	// maxPoolAddrs bounds the remembered addresses of replicas.
	maxPoolAddrs = 1000
)

// location is the id of a replica of the MCP pool that keeps something for a task, and of a server that the task uses there.
type location struct{ poolID, mcpID string }

// toServer routes calls about an MCP server to the replica that holds its connection.
func (s *Session) toServer(ctx context.Context, mcpID string) context.Context {
	if s.r.cfg.Replicas == nil {
		return ctx
	}
	return serve.WithAffinity(ctx, mcpID, s.head.GetUserSub())
}

// movedError reports that the call was not made, and that another replica of the MCP pool has to make it.
type movedError struct{ poolID string }

func (*movedError) Error() string { return "another replica of the MCP pool is responsible now" }

// otherReplica lists the tools again, and returns a movedError to the replica that is now responsible for the call's server, or nil if the
// request names that replica or the list does not tell.
func (s *Session) otherReplica(ctx context.Context, req *mcppoolv1.CallToolRequest) *movedError {
	s.dropTools()
	tools, err := s.toolset(ctx)
	if err != nil {
		return nil //nolint:nilerr // the call stays with the replica that refused it, and is sent again
	}
	if l := tools.list(req.GetMcpId()); l != nil && l.PoolID != "" && l.PoolID != req.GetPoolId() {
		return &movedError{l.PoolID}
	}
	return nil
}

// noteLocation records that a replica keeps something for this task.
func (s *Session) noteLocation(at location) {
	if s.r.cfg.Replicas == nil || at.poolID == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		s.used = make(map[string]string)
	}
	s.used[at.poolID] = at.mcpID
}

// sendToReplica sends a request to the replica that is now responsible for a location's server. If the location's own replica is known at
// another address, it sends the request there too, and returns that result.
func (s *Session) sendToReplica(ctx context.Context, at location, send func(context.Context, mcppoolv1.McpPoolServiceClient, ...grpc.CallOption) error) error {
	if s.r.cfg.Replicas == nil {
		return send(ctx, s.r.pool)
	}
	var to peer.Peer
	err := send(s.toServer(ctx, at.mcpID), s.r.pool, grpc.Peer(&to))
	addr, known := s.r.poolAddrs.GetIfPresent(at.poolID)
	if !known || to.Addr != nil && to.Addr.String() == addr {
		return err
	}
	return s.sendToAddr(addr, func(pool mcppoolv1.McpPoolServiceClient) error { return send(ctx, pool) })
}

func (s *Session) sendToAddr(addr string, send func(mcppoolv1.McpPoolServiceClient) error) error {
	conn, err := s.r.cfg.Replicas.At(addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return send(mcppoolv1.NewMcpPoolServiceClient(conn))
}

// replicaAddrs returns the addresses of all replicas, first the remembered address of the replica with this pool_id.
func (s *Session) replicaAddrs(ctx context.Context, poolID string) []string {
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	all, err := s.r.cfg.Replicas.Addrs(ctx)
	if err != nil {
		s.log.WarnContext(ctx, "the replicas of the MCP pool cannot be found", "error", err)
	}
	first, known := s.r.poolAddrs.GetIfPresent(poolID)
	if !known {
		return all
	}
	return append([]string{first}, slices.DeleteFunc(slices.Clone(all), func(a string) bool { return a == first })...)
}

// attachAnywhere asks the MCP pool for the outcome of a call. If no replica keeps the call and it ran as an MCP task, attachAnywhere lets
// the pool ask the server.
func (s *Session) attachAnywhere(ctx context.Context, req *mcppoolv1.AttachCallRequest, c *call) (*mcppoolv1.CallResult, error) {
	res, err := s.attachToPool(ctx, req, c)
	if c.mcpTaskID == "" || !toolcall.NotFound(err) || errs.From(err).Metadata[errs.OutcomeKey] == errs.OutcomeNotExecuted {
		return res, err
	}
	named := proto.CloneOf(req) // in-process, the receiver of the first request may still read it
	named.TaskId = c.mcpTaskID
	named.McpId, named.Name = flow.ToolName(c.toolID)
	return attachOn(s.toServer(ctx, c.location.mcpID), s.r.pool, named, c)
}

// attachToPool asks the MCP pool for the outcome of a call: first the replica that is now responsible for the call's server. If the call was
// for another replica, attachToPool asks all replicas, because only the replica that was to make the call can prove that it did not run.
func (s *Session) attachToPool(ctx context.Context, req *mcppoolv1.AttachCallRequest, c *call) (*mcppoolv1.CallResult, error) {
	res, err := attachOn(s.toServer(ctx, c.location.mcpID), s.r.pool, req, c)
	unknown := func(err error) bool { return keptElsewhere(err, req.GetPoolId()) }
	if s.r.cfg.Replicas == nil || !unknown(err) {
		return res, err
	}
	for deadline := time.Now().Add(replicaPatience); ; {
		found, unreached, findErr := s.search(ctx, req.GetPoolId(), unknown, func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient) (err error) {
			res, err = attachOn(ctx, pool, req, c)
			return err
		})
		if found {
			return res, findErr
		}
		if !unreached || time.Now().After(deadline) || !sleep(ctx, 200*time.Millisecond) {
			return nil, err
		}
	}
}

// search sends a request to one replica after another, in the order of replicaAddrs, until one returns success or an error for which
// unknown is false. unreached reports that a replica could not be reached.
func (s *Session) search(ctx context.Context, poolID string, unknown func(error) bool, send func(context.Context, mcppoolv1.McpPoolServiceClient) error) (found, unreached bool, err error) {
	for _, addr := range s.replicaAddrs(ctx, poolID) {
		err := s.sendToAddr(addr, func(pool mcppoolv1.McpPoolServiceClient) error { return send(ctx, pool) })
		e := errs.From(err)
		switch {
		case err != nil && e.Metadata[errs.OutcomeKey] == "" && (e.Reason == commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR || e.Code == codes.DeadlineExceeded):
			unreached = true
		case !unknown(err):
			return true, unreached, err
		}
	}
	return false, unreached, nil
}

func attachOn(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, req *mcppoolv1.AttachCallRequest, c *call) (*mcppoolv1.CallResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pool.AttachCall(ctx, req)
	if err != nil {
		return nil, toolcall.AsNetworkError(err)
	}
	res, err := receive(ctx, cancel, stream.Recv, c)
	return res, toolcall.AsNetworkError(err)
}

// poolIDKey is the key, in an error's metadata, of the id of the replica that does not know a call.
const poolIDKey = "pool_id"

// keptElsewhere reports whether an error proves that the asked replica is not the one that was to make the call.
func keptElsewhere(err error, poolID string) bool {
	if !toolcall.NotFound(err) {
		return false
	}
	e := errs.From(err)
	return e.Metadata[errs.OutcomeKey] != errs.OutcomeNotExecuted && poolID != "" && e.Metadata[poolIDKey] != poolID
}

// cancelAnywhere stops a call at the replica that runs it.
func (s *Session) cancelAnywhere(ctx context.Context, at location, req *mcppoolv1.CancelCallRequest) error {
	_, err := s.r.pool.CancelCall(s.toServer(ctx, at.mcpID), req)
	if s.r.cfg.Replicas == nil || err == nil {
		return err
	}
	found, _, _ := s.search(ctx, at.poolID, func(err error) bool { return err != nil }, func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient) error {
		ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
		defer cancel()
		_, err := pool.CancelCall(ctx, req)
		return err
	})
	if found {
		return nil
	}
	return err
}

// answerAnywhere passes an answer to the replica that runs the call. to receives the address that the first request reached. unreached reports
// that a replica that may run the call could not be reached.
func (s *Session) answerAnywhere(ctx context.Context, at location, req *mcppoolv1.AnswerCallRequest, to *peer.Peer) (unreached bool, err error) {
	_, err = s.r.pool.AnswerCall(s.toServer(ctx, at.mcpID), req, grpc.Peer(to))
	if s.r.cfg.Replicas == nil || !toolcall.NotFound(err) {
		return false, err
	}
	found, unreached, findErr := s.search(ctx, at.poolID, toolcall.NotFound, func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient) error {
		ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
		defer cancel()
		_, err := pool.AnswerCall(ctx, req)
		return err
	})
	if found {
		return false, findErr
	}
	return unreached, err
}
