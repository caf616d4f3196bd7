package test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/services/errs"
	"pawl.dev/test/rig"
)

// While the disk takes no data, /readyz and commands say so at once, reads are answered, and running tasks wait. Then they go on: no outcome is lost,
// and no call is repeated.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	options := func() rig.Options {
		return rig.Options{Workspace: workspace(t), Servers: map[string]any{"low": map[string]any{
			"command": os.Args[0], "env": map[string]string{rig.ServerVariable: "1"},
			"tools": map[string]any{"append": map[string]any{"effect": "write", "risk": "low"}},
		}}}
	}
	for name, start := range map[string]func() (*rig.Target, []string){
		"pawl-up": func() (*rig.Target, []string) {
			return rig.Binary(t, binaries, options()), []string{"pawl"}
		},
		"four-processes": func() (*rig.Target, []string) {
			return rig.FourProcesses(t, binaries, options()), []string{"executor-svc", "mcppool-svc"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
			defer cancel()
			target, processes := start()
			// A process whose files may not grow gets an error for each write, as on a full disk. Running MCP servers keep their own limit.
			room := func(bytes uint64) {
				for _, p := range processes {
					if err := unix.Prlimit(target.Processes[p].PID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: math.MaxUint64}, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			clients := map[string]rig.Client{"gRPC": rig.Client(rig.NewGRPC(target.Executor)), "REST": rig.REST{Base: target.HTTP}}
			client := clients["gRPC"]
			file := filepath.Join(t.TempDir(), "lines")
			var steps strings.Builder
			for i := range 12 {
				fmt.Fprintf(&steps, "- {tool: t/slow, input: {steps: 10}}\n- {tool: low/append, input: {path: %q, line: %q}}\n", file, fmt.Sprint("line ", i))
			}
			running, err := client.Create(ctx, &executorv1.CreateTaskRequest{Goal: "append", AutoExecute: new(true), Playbook: "steps:\n" + steps.String()})
			if err != nil {
				t.Fatal(err)
			}
			waiting, err := client.Create(ctx, &executorv1.CreateTaskRequest{
				Goal: "wait", AutoExecute: new(false), Playbook: fmt.Sprintf("steps: [{tool: t/append, input: {path: %q, line: approved}}]", file),
			})
			if err != nil {
				t.Fatal(err)
			}
			awaitStatus(ctx, t, client, waiting.GetId(), executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING)
			if err := client.Watch(ctx, running.GetId(), 0, func(e *executorv1.ExecutorEvent) bool { return e.GetStepOutput() == nil }); err != nil {
				t.Fatal(err)
			}

			room(1)
			if body := awaitReady(ctx, t, target, http.StatusServiceUnavailable); !strings.Contains(body, `"executor":{"ready":false`) || strings.Count(body, `"ready":true`) != 2 {
				t.Errorf("/readyz does not name the executor alone: %s", body)
			}
			for _, command := range []string{"tasks", "whoami", "mcp list"} {
				cmd := exec.CommandContext(ctx, binaries.Pawl, append(strings.Fields(command), "--server", path.Base(target.Executor.Target()), "--pool", path.Base(target.Pool.Target()))...)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("pawl %s: %v: %s", command, err, out)
				}
			}
			for name, c := range clients {
				for what, command := range map[string]func() error{
					"create": func() error {
						_, err := c.Create(ctx, &executorv1.CreateTaskRequest{Goal: "more"})
						return err
					},
					"approve": func() error {
						_, err := c.Resume(ctx, &executorv1.ResumeTaskRequest{
							Id: waiting.GetId(), WaitId: waitID(ctx, t, c, waiting.GetId()), Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}},
						})
						return err
					},
					"cancel": func() error {
						_, err := c.Cancel(ctx, &executorv1.CancelTaskRequest{Id: running.GetId()})
						return err
					},
				} {
					began := time.Now()
					if err := command(); reason(err) != "STORAGE_ERROR" || time.Since(began) > 20*time.Second {
						t.Errorf("%s over %s: after %s: %v", what, name, time.Since(began), err)
					}
				}
				if got, err := c.Get(ctx, running.GetId()); err != nil || got.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING {
					t.Errorf("the running task over %s: %v, %v", name, got.GetStatus(), err)
				}
			}
			_, err = mcppoolv1.NewMcpPoolServiceClient(target.Pool).CreateMcpServer(ctx, &mcppoolv1.CreateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
				Id: "late", Transport: &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{Command: "true"}},
			}})
			if errs.ReasonName(errs.Reason(err)) != "STORAGE_ERROR" {
				t.Errorf("a registration: %v", err)
			}

			room(math.MaxUint64)
			awaitReady(ctx, t, target, http.StatusOK)
			approve := &executorv1.ResumeTaskRequest{
				Id: waiting.GetId(), WaitId: waitID(ctx, t, client, waiting.GetId()), Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}},
			}
			if _, err := client.Resume(ctx, approve); err != nil {
				t.Errorf("an approval, with room again: %v", err)
			}
			for _, id := range []string{running.GetId(), waiting.GetId()} {
				awaitStatus(ctx, t, client, id, executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS)
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 12 {
				if n := strings.Count(string(raw), fmt.Sprintf("line %d\n", i)); n != 1 {
					t.Errorf("line %d was written %d times", i, n)
				}
			}
			if n := strings.Count(string(raw), "approved\n"); n != 1 {
				t.Errorf("the approved line was written %d times", n)
			}
		})
	}
}

func awaitStatus(ctx context.Context, t *testing.T, c rig.Client, id string, want executorv1.ExecutorStatus) {
	t.Helper()
	err := c.Watch(ctx, id, 0, func(*executorv1.ExecutorEvent) bool {
		got, err := c.Get(ctx, id)
		return err == nil && got.GetStatus() != want
	})
	if got, err2 := c.Get(ctx, id); err != nil || err2 != nil || got.GetStatus() != want {
		t.Fatalf("the task is %v, not %v: %v, %v", got.GetStatus(), want, err, err2)
	}
}

func waitID(ctx context.Context, t *testing.T, c rig.Client, id string) string {
	t.Helper()
	got, err := c.Get(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return got.GetWaits()[0].GetId()
}

// awaitReady waits until /readyz answers with a status, and returns the body.
func awaitReady(ctx context.Context, t *testing.T, target *rig.Target, want int) string {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.HTTP+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("/readyz never answered %d: %v", want, err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err == nil && res.StatusCode == want {
			return string(body)
		}
		<-tick.C
	}
}
