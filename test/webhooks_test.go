package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/rig"
)

// loopback allows webhooks to lead to this machine.
var loopback = []string{"127.0.0.0/8"}

// received is a line of testdata/webhook-receiver.mjs.
type received struct {
	ID, Refused, Secret string
	Port                int
	Event               struct {
		Type string
		Data struct{ TaskID, WaitID string }
	}
}

// A receiver with the package standardwebhooks of npm verifies the question of a task and its end, also after a rotation by the old and by the new secret, and refuses what
// another secret signed.
func TestWebhooksAreStandard(t *testing.T) {
	modules := filepath.Dir(filepath.Dir(rig.NPM(t, ".", "standardwebhooks")))
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "testdata/webhook-receiver.mjs")
	cmd.Env = append(os.Environ(), "PAWL_NODE_MODULES="+modules)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	lines := json.NewDecoder(out)
	next := func() (line received) {
		t.Helper()
		if err := lines.Decode(&line); err != nil {
			t.Fatal(err)
		}
		return line
	}
	use := func(secret string) {
		t.Helper()
		if _, err := io.WriteString(in, secret+"\n"); err != nil {
			t.Fatal(err)
		}
		if line := next(); line.Secret != secret {
			t.Fatalf("%+v", line)
		}
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/pawl", next().Port)

	target := rig.Binary(t, binaries, rig.Options{Workspace: workspace(t), WebhookAddresses: loopback})
	hooks, tasks := executorv1.NewWebhookServiceClient(target.Executor), executorv1.NewExecutorServiceClient(target.Executor)
	w, err := hooks.CreateWebhook(ctx, &executorv1.CreateWebhookRequest{Webhook: &executorv1.Webhook{Url: url}})
	if err != nil {
		t.Fatal(err)
	}
	use(w.GetSecret())
	task, err := tasks.CreateTask(ctx, &executorv1.CreateTaskRequest{Goal: "List the files in docs"})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for ended := false; !ended; {
		got := next()
		e := got.Event
		if got.Refused != "" || e.Data.TaskID != task.GetId() || ids[got.ID] {
			t.Fatalf("%+v", got)
		}
		ids[got.ID] = true
		if ended = e.Type == "task.flow_success"; !ended {
			if _, err := tasks.ResumeTask(ctx, &executorv1.ResumeTaskRequest{
				Id: task.GetId(), WaitId: e.Data.WaitID, Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}},
			}); err != nil {
				t.Fatalf("%+v: %v", got, err)
			}
		}
	}
	if len(ids) < 2 {
		t.Errorf("%d events were delivered", len(ids))
	}
	ping := func(name string, delivered bool) {
		t.Helper()
		r, err := hooks.TestWebhook(ctx, &executorv1.TestWebhookRequest{Id: w.GetId()})
		if got := next(); err != nil || r.GetDelivered() != delivered || (got.Refused == "") != delivered || delivered && got.Event.Type != "webhook.ping" {
			t.Errorf("%s: %v, %v; %+v", name, r, err, got)
		}
	}
	rotated, err := hooks.RotateWebhookSecret(ctx, &executorv1.RotateWebhookSecretRequest{Id: w.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	ping("the old secret", true)
	use(rotated.GetSecret())
	ping("the new secret", true)
	use("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	ping("another secret", false)
}

// The server is killed while a receiver has accepted an event but the server does not know, and while others are committed but not delivered: after its start all are
// delivered in their order, and what is repeated has the webhook-id of before.
func TestKillBetweenCommitAndDelivery(t *testing.T) {
	const rounds, events = 3, 5
	type posted struct{ id, body string }
	got := make(chan posted, 100)
	var hold atomic.Pointer[chan struct{}] // a post is not answered until it is closed
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		held := *hold.Load()
		got <- posted{r.Header.Get("webhook-id"), string(body)}
		<-held
	}))
	defer web.Close()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	next := func() posted {
		t.Helper()
		select {
		case p := <-got:
			return p
		case <-ctx.Done():
			t.Fatal("nothing was delivered")
			return posted{}
		}
	}
	target := rig.Binary(t, binaries, rig.Options{Workspace: workspace(t), WebhookAddresses: loopback})
	hooks, client := executorv1.NewWebhookServiceClient(target.Executor), rig.NewGRPC(target.Executor)
	w, err := hooks.CreateWebhook(ctx, &executorv1.CreateWebhookRequest{Webhook: &executorv1.Webhook{Url: web.URL, EventTypes: []string{"task.flow_success"}}})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	yes := true
	for round := range rounds {
		held, open := make(chan struct{}), make(chan struct{})
		close(open)
		hold.Store(&held)
		var tasks []string
		var first posted
		for i := range events {
			task, err := client.Create(ctx, &executorv1.CreateTaskRequest{Goal: "List the files in docs", AutoExecute: &yes})
			if err != nil {
				t.Fatal(err)
			}
			tasks = append(tasks, task.GetId())
			if i == 0 {
				first = next()
				continue
			}
			for task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS { // its end is committed
				if task, err = executorv1.NewExecutorServiceClient(target.Executor).GetTask(ctx, &executorv1.GetTaskRequest{Id: task.GetId()}); err != nil {
					t.Fatal(err)
				}
			}
		}
		target.Processes["pawl"].Kill()
		hold.Store(&open)
		close(held)
		target.Restart(t, "pawl")
		for i, id := range tasks {
			p := next()
			if !strings.Contains(p.body, id) || known[p.id] || i == 0 && p != first {
				t.Errorf("round %d, event %d: %v; before the kill %v", round, i, p, first)
			}
			known[p.id] = true
		}
		for {
			list, err := hooks.ListWebhookDeliveries(ctx, &executorv1.ListWebhookDeliveriesRequest{WebhookId: w.GetId()})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.GetDeliveries()) == 0 {
				break
			}
			<-time.After(time.Millisecond)
		}
	}
	if len(got) > 0 {
		t.Errorf("also delivered: %v", <-got)
	}
}
