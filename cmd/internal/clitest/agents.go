package clitest

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"pawl.dev/executor-svc/executor"
	"pawl.dev/planner-svc/planner"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/inproc"
)

// Agents is the real AgentService of an executor that reaches no pool, so agents may name any server.
type Agents struct {
	executorv1.AgentServiceServer
	*Script
}

// NewAgents returns the service with these agents of the user local.
func NewAgents(t testing.TB, agents ...*executorv1.Agent) *Agents {
	t.Helper()
	nowhere := inproc.New(nil, nil)
	service, err := executor.New(t.Context(), executor.Config{DataDir: t.TempDir()}, executor.Deps{Planner: nowhere, Pool: nowhere})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Close() })
	a := &Agents{Script: &Script{}, AgentServiceServer: implementation[executorv1.AgentServiceServer](service)}
	for _, agent := range agents {
		if _, err := a.CreateAgent(local(), &executorv1.CreateAgentRequest{AgentId: agent.GetId(), Agent: agent}); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// Register implements Registrar.
func (a *Agents) Register(r grpc.ServiceRegistrar) {
	executorv1.RegisterAgentServiceServer(scriptRegistrar{r, a.Script}, a)
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
