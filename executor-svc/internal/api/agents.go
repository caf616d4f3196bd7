package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/page"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/view"
)

var slug = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)

// CreateAgent implements AgentService.
func (s *Agents) CreateAgent(ctx context.Context, req *executorv1.CreateAgentRequest) (*executorv1.Agent, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	id, err := newAgentID(who.Sub, req)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(checkOwner(who, req.GetAgent()), checkConfirm(who, req.GetAgent().GetConfirm())); err != nil {
		return nil, err
	}
	hash, err := requestHash(req)
	if err != nil {
		return nil, err
	}
	a := storedAgent(req.GetAgent())
	if err := s.check.agent(ctx, who.Sub, a); err != nil {
		return nil, err
	}
	a.Rev, a.CreateTime = 1, time.Now().UnixNano()
	a.UpdateTime, a.RequestId, a.RequestHash = a.GetCreateTime(), req.GetRequestId(), hash
	err = s.Journal.PutAgent(ctx, who.Sub, id, a, 0)
	if errors.Is(err, journal.ErrExists) {
		return s.existingAgent(ctx, who.Sub, id, a)
	}
	return agent(who.Sub, id, a), apiError(err, nil)
}

// existingAgent returns the agent with this id if an earlier, equal request created it, else an error.
func (s *Agents) existingAgent(ctx context.Context, user, id string, a *storagev1.Agent) (*executorv1.Agent, error) {
	old, err := s.Journal.Agent(ctx, user, id)
	if err != nil {
		return nil, apiError(err, agentNotFound(id))
	}
	switch {
	case a.GetRequestId() == "" || a.GetRequestId() != old.GetRequestId():
		return nil, errs.New(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS,
			"the agent %q already exists; update it, or choose another id", id)
	case string(a.GetRequestHash()) != string(old.GetRequestHash()):
		return nil, apiError(journal.ErrRequestReused, nil)
	}
	return agent(user, id, old), nil
}

// newAgentID returns the id in the request. If it is empty, newAgentID derives an id from the request_id, so that a repeated request finds the
// agent of the first request; without a request_id the id is random.
func newAgentID(user string, req *executorv1.CreateAgentRequest) (string, error) {
	id := cmp.Or(req.GetAgentId(), req.GetAgent().GetId())
	switch {
	case id == "" && req.GetRequestId() == "":
		raw := uuid.New()
		return "agent-" + hex.EncodeToString(raw[:6]), nil
	case id == "":
		sum := sha256.Sum256([]byte(user + "\x00" + req.GetRequestId()))
		return "agent-" + hex.EncodeToString(sum[:6]), nil
	case !slug.MatchString(id):
		return "", invalidField("agent_id", "not a slug", "%q cannot be an agent's id; use 1 to 64 lower-case letters, digits and hyphens, and no hyphen at the beginning or end", id)
	}
	return id, nil
}

// GetAgent implements AgentService.
func (s *Agents) GetAgent(ctx context.Context, req *executorv1.GetAgentRequest) (*executorv1.Agent, error) {
	who, a, err := s.load(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return agent(who.Sub, req.GetId(), a), nil
}

// load returns an agent of the caller.
func (s *Agents) load(ctx context.Context, id string) (identity.Principal, *storagev1.Agent, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return who, nil, err
	}
	a, err := s.Journal.Agent(ctx, who.Sub, id)
	return who, a, apiError(err, agentNotFound(id))
}

// ListAgents implements AgentService.
func (s *Agents) ListAgents(ctx context.Context, req *executorv1.ListAgentsRequest) (*executorv1.ListAgentsResponse, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	scope := "agents/" + who.Sub
	after, err := page.Decode(scope, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	n := int(cmp.Or(req.GetPageSize(), 50))
	found, err := s.Journal.ListAgents(ctx, who.Sub, string(after), n+1)
	if err != nil {
		return nil, apiError(err, nil)
	}
	out := &executorv1.ListAgentsResponse{}
	if len(found) > n {
		found = found[:n]
		out.NextPageToken = page.Encode(scope, []byte(found[n-1].ID))
	}
	for _, e := range found {
		out.Agents = append(out.Agents, agent(who.Sub, e.ID, e.Agent))
	}
	return out, nil
}

// UpdateAgent implements AgentService.
func (s *Agents) UpdateAgent(ctx context.Context, req *executorv1.UpdateAgentRequest) (*executorv1.Agent, error) {
	id := req.GetAgent().GetId()
	who, old, err := s.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(checkOwner(who, req.GetAgent()), checkEtag(req.GetAgent().GetEtag(), old)); err != nil {
		return nil, err
	}
	a, err := merge(old, req.GetAgent(), req.GetUpdateMask())
	if err != nil {
		return nil, err
	}
	if a.GetConfirm() != old.GetConfirm() {
		if err := checkConfirm(who, a.GetConfirm()); err != nil {
			return nil, err
		}
	}
	if a.GetModel() != old.GetModel() || a.GetFlow() != old.GetFlow() || !slices.Equal(a.GetMcpIds(), old.GetMcpIds()) {
		if err := s.check.agent(ctx, who.Sub, a); err != nil {
			return nil, err
		}
	}
	a.Rev, a.UpdateTime = old.GetRev()+1, time.Now().UnixNano()
	if err := s.Journal.PutAgent(ctx, who.Sub, id, a, old.GetRev()); err != nil {
		return nil, apiError(err, agentNotFound(id))
	}
	return agent(who.Sub, id, a), nil
}

// DeleteAgent implements AgentService.
func (s *Agents) DeleteAgent(ctx context.Context, req *executorv1.DeleteAgentRequest) (*executorv1.DeleteAgentResponse, error) {
	who, old, err := s.load(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	if err := checkEtag(req.GetEtag(), old); err != nil {
		return nil, err
	}
	rev := uint64(0)
	if req.GetEtag() != "" {
		rev = old.GetRev()
	}
	if err := s.Journal.DeleteAgent(ctx, who.Sub, req.GetId(), rev); err != nil {
		return nil, apiError(err, agentNotFound(req.GetId()))
	}
	return &executorv1.DeleteAgentResponse{}, nil
}

// checkConfirm refuses CONFIRM_NEVER to callers who are not operators.
func checkConfirm(who identity.Principal, c executorv1.Confirm) error {
	if c == executorv1.Confirm_CONFIRM_NEVER && !who.IsOperator() {
		return errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
			"only an operator may let an agent run without ever asking; use CONFIRM_BY_RISK")
	}
	return nil
}

// checkOwner refuses an agent that names another owner than the caller, because agents belong to their creators.
func checkOwner(who identity.Principal, a *executorv1.Agent) error {
	if o := a.GetUserSub(); o != "" && o != who.Sub {
		return errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
			"agents belong to the user who creates them; leave user_sub out")
	}
	return nil
}

// checkEtag refuses an etag that is not the agent's. An empty etag matches every agent.
func checkEtag(etag string, a *storagev1.Agent) error {
	if etag != "" && etag != etagOf(a) {
		return apiError(journal.ErrStale, nil)
	}
	return nil
}

func etagOf(a *storagev1.Agent) string { return strconv.FormatUint(a.GetRev(), 10) }

func agentNotFound(id string) error {
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND,
		"there is no agent %q; list yours with `pawl agents list` or GET /v1/agents", id)
}

func storedAgent(a *executorv1.Agent) *storagev1.Agent {
	return &storagev1.Agent{
		DisplayName: a.GetDisplayName(), Description: a.GetDescription(), McpIds: a.GetMcpIds(), Model: a.GetModel(), Flow: a.GetFlow(),
		Confirm: a.GetConfirm(), MaxSteps: a.GetMaxSteps(), MaxFailedSteps: a.GetMaxFailedSteps(),
		Budget: storedBudget(a.GetBudget()), WaitTimeout: int64(a.GetWaitTimeout().AsDuration()), OnUnknownOutcome: a.GetOnUnknownOutcome(), PlanOptions: a.GetPlanOptions(),
		ChatOptions: a.GetChatOptions(),
	}
}

func agent(user, id string, a *storagev1.Agent) *executorv1.Agent {
	return &executorv1.Agent{
		Id: id, DisplayName: a.GetDisplayName(), Description: a.GetDescription(), McpIds: a.GetMcpIds(), Model: a.GetModel(), Flow: a.GetFlow(),
		Confirm: a.GetConfirm(), MaxSteps: a.GetMaxSteps(), MaxFailedSteps: a.GetMaxFailedSteps(), UserSub: user,
		Budget: view.Budget(a.GetBudget()), WaitTimeout: view.Duration(a.GetWaitTimeout()), OnUnknownOutcome: a.GetOnUnknownOutcome(), PlanOptions: a.GetPlanOptions(),
		ChatOptions: a.GetChatOptions(), CreateTime: timestamppb.New(time.Unix(0, a.GetCreateTime())), UpdateTime: timestamppb.New(time.Unix(0, a.GetUpdateTime())),
		Etag: etagOf(a),
	}
}
