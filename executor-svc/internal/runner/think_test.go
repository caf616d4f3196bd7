package runner

import (
	"log/slog"
	"net"
	"testing"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// thinker is a planner that sends messages, and then waits for its end if it hangs.
type thinker struct {
	plannerv1.UnimplementedPlannerServiceServer
	sends []*plannerv1.ThinkResponse
	hangs bool
	addr  string // set by startPlanner
}

func (p *thinker) Think(_ *plannerv1.ThinkRequest, stream grpc.ServerStreamingServer[plannerv1.ThinkResponse]) error {
	for _, m := range p.sends {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	if p.hangs {
		<-stream.Context().Done()
	}
	return stream.Context().Err()
}

// startPlanner serves a planner on an address until it is stopped.
func startPlanner(t *testing.T, addr string, p *thinker) *grpc.Server {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	plannerv1.RegisterPlannerServiceServer(s, p)
	t.Cleanup(s.Stop)
	go func() { _ = s.Serve(l) }()
	p.addr = l.Addr().String()
	return s
}

// D6, D13: a planner that is killed while a thought streams is asked again; the thought begins again, and the subtask does not fail.
func TestPlannerIsKilledWhileItThinks(t *testing.T) {
	killed := &thinker{sends: []*plannerv1.ThinkResponse{{Piece: piece("I read th")}}, hangs: true}
	server := startPlanner(t, "127.0.0.1:0", killed)
	conn, err := serve.Dial(killed.addr, "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	pool := inproc.New(nil, nil)
	mcppoolv1.RegisterMcpPoolServiceServer(pool, &servers{})
	r := New(Config{}, plannerv1.NewPlannerServiceClient(conn), mcppoolv1.NewMcpPoolServiceClient(pool), slog.New(slog.DiscardHandler))
	s := r.Session("task", 1, &storagev1.TaskHead{UserSub: "u", McpIds: []string{"files"}}, Memory{})
	task := &flow.Task{ID: "task", Head: &storagev1.TaskHead{}, State: &storagev1.Checkpoint{Lanes: []*storagev1.Lane{{}, {Id: 1, SubtaskId: "a"}}}}
	log := &history.Log{Plan: &history.Plan{Subtasks: []*history.Subtask{{PlannedSubtask: &storagev1.PlannedSubtask{Id: "a", Title: "Do A"}}}}}

	var shown string
	var thought flow.Thought
	think := s.Prepare(t.Context(), task, log, flow.LaneAction{Lane: 1, Action: flow.Ask{Question: flow.Think{}}})
	think(t.Context(), func(in flow.Input) {
		switch in := in.(type) {
		case flow.Thinking:
			if in.Again {
				shown = ""
			}
			if shown += in.Text; server != nil { // the first piece
				server.Stop()
				server = nil
				startPlanner(t, killed.addr, &thinker{sends: []*plannerv1.ThinkResponse{{Piece: piece("I read the file.")}, {Piece: &plannerv1.ThinkResponse_Result{
					Result: &plannerv1.ThinkResult{Steps: []*plannerv1.PlannedStep{{ToolId: "files/read", InputJson: "{}"}}},
				}}}})
			}
		case flow.Thought:
			thought = in
		default:
			t.Errorf("unexpected %T", in)
		}
	})
	if thought.Err != nil || len(thought.Steps) != 1 || thought.Steps[0].ToolID != "files/read" {
		t.Errorf("the thought is %+v", thought)
	}
	if got := shown + thought.Text; got != "I read the file." {
		t.Errorf("the thought reads %q", got)
	}
	s.Leave(t.Context(), true)
	r.Close()
}

func piece(s string) *plannerv1.ThinkResponse_Text { return &plannerv1.ThinkResponse_Text{Text: s} }

// A call that failed twice in the same way is not made a third time, unless something was changed since (D3, D11).
func TestRepeatedFailureIsNotCalled(t *testing.T) {
	tools := toolsetOf("f", &commonv1.Tool{Id: "f/read", Effect: commonv1.Effect_EFFECT_READ}, &commonv1.Tool{Id: "f/write", Effect: commonv1.Effect_EFFECT_WRITE})
	entry := func(tool, input, err string) *plannerv1.HistoryEntry {
		e := &plannerv1.HistoryEntry{ToolId: tool, InputJson: input, Error: err, Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, Outcome: commonv1.Outcome_OUTCOME_KNOWN}
		if err != "" {
			e.Result = plannerv1.StepResult_STEP_RESULT_ERROR
		}
		return e
	}
	fails, spaced := entry("f/write", `{"a":1}`, "locked"), entry("f/write", `{ "a": 1 }`, "locked")
	unsent := entry("f/write", `{"a":1}`, "locked")
	unsent.Outcome = commonv1.Outcome_OUTCOME_NOT_EXECUTED
	for name, c := range map[string]struct {
		history []*plannerv1.HistoryEntry
		refused bool
	}{
		"new":                  {nil, false},
		"failed once":          {[]*plannerv1.HistoryEntry{fails}, false},
		"failed twice":         {[]*plannerv1.HistoryEntry{fails, spaced}, true},
		"read between":         {[]*plannerv1.HistoryEntry{fails, entry("f/read", "{}", ""), fails, entry("f/read", "{}", "")}, true},
		"changed since":        {[]*plannerv1.HistoryEntry{fails, fails, entry("f/write", `{"a":2}`, "")}, false},
		"other errors":         {[]*plannerv1.HistoryEntry{fails, entry("f/write", `{"a":1}`, "gone")}, false},
		"other inputs":         {[]*plannerv1.HistoryEntry{fails, entry("f/write", `{"a":2}`, "locked")}, false},
		"once not called":      {[]*plannerv1.HistoryEntry{fails, unsent}, false},
		"another tool":         {[]*plannerv1.HistoryEntry{fails, entry("f/read", `{"a":1}`, "locked")}, false},
		"a tool that has gone": {[]*plannerv1.HistoryEntry{fails, fails, entry("f/old", "{}", "")}, false},
	} {
		why := tools.repeatedFailure(c.history, &flow.PlannedStep{ToolID: "f/write", InputJSON: `{"a": 1}`})
		if (why != "") != c.refused {
			t.Errorf("%s: %q, want it refused: %v", name, why, c.refused)
		}
	}
}
