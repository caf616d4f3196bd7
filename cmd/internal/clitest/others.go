package clitest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"pawl.dev/planner-svc/planner"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// Agents keeps agents in memory.
type Agents struct {
	executorv1.UnimplementedAgentServiceServer

	mu     sync.Mutex // guards the fields below
	agents []*executorv1.Agent
	Masks  [][]string // the masks of all updates
}

// NewAgents returns a fake that has these agents.
func NewAgents(agents ...*executorv1.Agent) *Agents { return &Agents{agents: agents} }

// Register implements Registrar.
func (s *Agents) Register(r grpc.ServiceRegistrar) { executorv1.RegisterAgentServiceServer(r, s) }

func (s *Agents) find(id string) (int, error) {
	i := slices.IndexFunc(s.agents, func(a *executorv1.Agent) bool { return a.GetId() == id })
	if i < 0 {
		return 0, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND, "there is no agent %q", id)
	}
	return i, nil
}

// CreateAgent adds an agent.
func (s *Agents) CreateAgent(_ context.Context, req *executorv1.CreateAgentRequest) (*executorv1.Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := proto.CloneOf(req.GetAgent())
	a.Id = req.GetAgentId()
	s.agents = append(s.agents, a)
	slices.SortFunc(s.agents, func(a, b *executorv1.Agent) int { return strings.Compare(a.GetId(), b.GetId()) })
	return proto.CloneOf(a), nil
}

// GetAgent returns an agent.
func (s *Agents) GetAgent(_ context.Context, req *executorv1.GetAgentRequest) (*executorv1.Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(req.GetId())
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(s.agents[i]), nil
}

// ListAgents lists all agents.
func (s *Agents) ListAgents(context.Context, *executorv1.ListAgentsRequest) (*executorv1.ListAgentsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &executorv1.ListAgentsResponse{}
	for _, a := range s.agents {
		list.Agents = append(list.Agents, proto.CloneOf(a))
	}
	return list, nil
}

// UpdateAgent replaces the whole agent and records the mask.
func (s *Agents) UpdateAgent(_ context.Context, req *executorv1.UpdateAgentRequest) (*executorv1.Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(req.GetAgent().GetId())
	if err != nil {
		return nil, err
	}
	s.Masks = append(s.Masks, req.GetUpdateMask().GetPaths())
	s.agents[i] = proto.CloneOf(req.GetAgent())
	return proto.CloneOf(s.agents[i]), nil
}

// DeleteAgent removes an agent.
func (s *Agents) DeleteAgent(_ context.Context, req *executorv1.DeleteAgentRequest) (*executorv1.DeleteAgentResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(req.GetId())
	if err != nil {
		return nil, err
	}
	s.agents = slices.Delete(s.agents, i, i+1)
	return &executorv1.DeleteAgentResponse{}, nil
}

// models is the models file of Planner. No server listens at its baseUrl.
const models = "models: [{name: fast, provider: openai, model: gpt-5-mini, baseUrl: 'http://127.0.0.1:1', description: openai gpt-5-mini}]"

// Planner returns the real planner service with one configured model.
func Planner(t testing.TB) Registrar {
	t.Helper()
	file := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(file, []byte(models), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := planner.New(t.Context(), planner.Config{Models: file}, planner.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}
