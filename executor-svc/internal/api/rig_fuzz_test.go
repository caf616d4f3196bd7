package api_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/api"
	"pawl.dev/executor-svc/internal/engine"
	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/runner"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// rig is the API over a real journal and engine, reached as clients reach it: with the interceptors that check messages.
type rig struct {
	store  *bolt.Store
	engine *engine.Engine
	tasks  executorv1.ExecutorServiceClient
	agents executorv1.AgentServiceClient
	// waiting holds a task by the kind of its open wait.
	waiting map[executorv1.WaitKind]string
}

// damagedAgent is a journal in which the agent "damaged" cannot be read.
type damagedAgent struct{ journal.Journal }

func (j damagedAgent) Agent(ctx context.Context, user, id string) (*storagev1.Agent, error) {
	if id == "damaged" {
		return nil, journal.ErrDamaged
	}
	return j.Journal.Agent(ctx, user, id)
}

func newRig(t testing.TB) *rig {
	log := slog.New(slog.DiscardHandler)
	store, err := bolt.Open(filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	// This planner plans no further step.
	served := grpctest.Serve(t, func(s grpc.ServiceRegistrar) { plannerv1.RegisterPlannerServiceServer(s, &fake.Planner{}) }, serve.Options{Log: log})
	pooled := grpctest.Serve(t, func(s grpc.ServiceRegistrar) { mcppoolv1.RegisterMcpPoolServiceServer(s, fake.NewPool()) }, serve.Options{Log: log})
	planner, pool := plannerv1.NewPlannerServiceClient(served), mcppoolv1.NewMcpPoolServiceClient(pooled)
	r := &rig{store: store, waiting: map[executorv1.WaitKind]string{}}
	flows := map[string]flow.Flow{"agent": agent.New()}
	r.engine = engine.New(engine.Config{}, engine.Deps{
		Journal: store, Log: log, Flows: flows, Runner: runner.New(runner.Config{}, planner, pool, log),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- r.engine.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ran })
	conn := grpctest.Serve(t, func(s grpc.ServiceRegistrar) {
		api.NewTasks(api.Deps{Flows: flows,
			Engine: r.engine, Journal: damagedAgent{store}, Planner: planner, Pool: pool, Log: log,
			Limits: &storagev1.Limits{MaxSteps: 3, MaxFailedSteps: 3, MaxAttempts: 3},
		}).Register(s)
	}, serve.Options{Log: log})
	r.tasks, r.agents = executorv1.NewExecutorServiceClient(conn), executorv1.NewAgentServiceClient(conn)
	return r
}

// task returns a task that waits for an answer of this kind.
func (r *rig) task(t testing.TB, kind executorv1.WaitKind) string {
	t.Helper()
	if id := r.waiting[kind]; id != "" {
		stored, err := r.store.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if len(stored.Checkpoint.GetWaits()) == 1 && !stored.Checkpoint.GetCancelRequested() {
			return id
		}
	}
	n := waitingTask(kind)
	if _, err := r.engine.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	r.waiting[kind] = n.ID
	return n.ID
}

// waitingTask is a task as it is stored while it waits.
func waitingTask(kind executorv1.WaitKind) journal.NewTask {
	now := time.Now().UnixNano()
	const waits, input = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING, `{"text":"shown"}`
	s := &storagev1.ActiveStep{
		Ordinal: 1, ToolId: "t/write", Status: executorv1.StepStatus_STEP_STATUS_WAITING, InputJson: input, Effect: commonv1.Effect_EFFECT_WRITE,
		Risk: &storagev1.RiskNote{Level: commonv1.RiskLevel_RISK_LEVEL_MEDIUM}, DefinitionHash: "hash-write", ConfigRevision: 1,
	}
	c := &storagev1.Checkpoint{
		Rev: 1, Status: waits, StepCount: 1, LastSeq: 2, UpdateTime: now, WaitCount: 1,
		Lanes: []*storagev1.Lane{{Phase: storagev1.Phase_PHASE_WAIT, Step: s}}, Waits: []*storagev1.Wait{{Id: "wait-1", Kind: kind, Ordinal: 1, CreateTime: now}},
	}
	switch kind {
	case executorv1.WaitKind_WAIT_KIND_PARAMS:
		s.Status, s.Attempt, s.Outcome = executorv1.StepStatus_STEP_STATUS_PARAM, 1, commonv1.Outcome_OUTCOME_KNOWN
	case executorv1.WaitKind_WAIT_KIND_OUTCOME:
		s.Attempt, s.Outcome, s.Error = 1, commonv1.Outcome_OUTCOME_UNKNOWN, &storagev1.ErrorNote{ErrMsg: "lost"}
	case executorv1.WaitKind_WAIT_KIND_PAUSE:
		c.Lanes[0].Step, c.Waits[0].Ordinal, c.PauseRequested, c.Lanes[0].PausedPhase, c.StepCount = nil, 0, true, storagev1.Phase_PHASE_PLAN, 0
	}
	return journal.NewTask{
		ID: uuid.Must(uuid.NewV7()).String(),
		Head: &storagev1.TaskHead{
			UserSub: "local", Goal: "a goal", Flow: "agent", CreateTime: now, Confirm: executorv1.Confirm_CONFIRM_ALWAYS, McpIds: []string{"t"},
			Limits: &storagev1.Limits{MaxSteps: 3, MaxFailedSteps: 3, MaxAttempts: 3},
		},
		Checkpoint: c,
		Records: []journal.Record{{FirstSeq: 1, Record: &storagev1.Record{Time: now, Facts: []*storagev1.Fact{
			{Status: waits, Kind: &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{}}},
			{Status: waits, Kind: &storagev1.Fact_FlowStop{FlowStop: &storagev1.FlowStop{WaitIds: []string{"wait-1"}}}},
		}}}},
	}
}

// succeeded reports whether err is nil. If not, it checks that err says what is wrong with the request.
func succeeded(t *testing.T, what string, err error) bool {
	t.Helper()
	if err == nil {
		return true
	}
	e := errs.From(err)
	switch e.Code {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.ResourceExhausted, codes.Aborted:
		if e.Message == "" || e.Reason == commonv1.ErrorReason_ERROR_REASON_UNSPECIFIED || e.Reason == commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR {
			t.Errorf("%s is refused without saying why: %v", what, err)
		}
	default:
		t.Errorf("%s: %s: %v", what, e.Code, err)
	}
	return false
}

// readable checks that a task can be shown whole, whatever is stored in it now.
func (r *rig) readable(t *testing.T, id string) {
	t.Helper()
	_, err := r.tasks.GetTask(t.Context(), &executorv1.GetTaskRequest{Id: id})
	succeeded(t, "GetTask", err)
	_, err = r.tasks.ListSteps(t.Context(), &executorv1.ListStepsRequest{Id: id})
	succeeded(t, "ListSteps", err)
	stream, err := r.tasks.ExportTask(t.Context(), &executorv1.ExportTaskRequest{Id: id})
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("ExportTask: %v", err)
	}
}

// text replaces invalid UTF-8, which cannot be sent.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
