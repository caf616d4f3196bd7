package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// ending is a request that ends an agent's task.
type ending struct {
	name string
	// commit is the change of the journal that the request makes.
	commit string
	do     func(ctx context.Context, topics conversationv1.TopicServiceClient, topicID string) error
}

// asker is an agent whose tasks wait for an approval.
const asker = "asker"

var endings = []ending{
	{"rollback", "Post", func(ctx context.Context, topics conversationv1.TopicServiceClient, topicID string) error {
		_, err := topics.RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: topicID, All: true})
		return err
	}},
	{"interruption", "Post", func(ctx context.Context, topics conversationv1.TopicServiceClient, topicID string) error {
		_, err := topics.InterruptAgent(ctx, &conversationv1.InterruptAgentRequest{TopicId: topicID, Name: asker})
		return err
	}},
	{"removal", "UpdateTopic", func(ctx context.Context, topics conversationv1.TopicServiceClient, topicID string) error {
		_, err := topics.RemoveParticipant(ctx, &conversationv1.RemoveParticipantRequest{TopicId: topicID, Name: asker})
		return err
	}},
	{"deletion", "DeleteTopic", func(ctx context.Context, topics conversationv1.TopicServiceClient, topicID string) error {
		_, err := topics.DeleteTopic(ctx, &conversationv1.DeleteTopicRequest{Id: topicID})
		return err
	}},
}

// Wherever the executor dies while a rollback, an interruption, a removal or a deletion ends the task of an agent, the task ends although the request is not repeated, and
// tasks of later messages go on (B19).
func TestEveryPointOfAnEnding(t *testing.T) {
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			dir := filepath.Join(programs.data, t.Name())
			points, err := e.run(t.Context(), filepath.Join(dir, "0"), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{e.commit + ".before", e.commit + ".after", "Send.before", "Send.after", "Commit.before", "Commit.after", "Dispatched.before"} {
				if !slices.Contains(points, want) {
					t.Errorf("the point %s was not reached: %v", want, points)
				}
			}
			last := slices.Index(points, "Create.before") // of the task of the next message
			numbers := make(chan int)
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for die := range numbers {
						if reached, err := e.run(t.Context(), filepath.Join(dir, strconv.Itoa(die)), die); err != nil {
							t.Errorf("died at point %d of %v: %v", die, reached, err)
						}
					}
				})
			}
			for die := 1; die <= last; die++ {
				numbers <- die
			}
			close(numbers)
			wg.Wait()
			t.Logf("%d points", last)
		})
	}
}

// run makes the request with a process that dies at a point after its beginning, 0: at none, and returns the points of that process from there on, and what is
// wrong.
func (e ending) run(ctx context.Context, dir string, die int) (points []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	k, err := keep(nil, "-data", dir, "-mcp-config", programs.config, "all")
	if err != nil {
		return nil, err
	}
	first := k.current()
	defer func() {
		k.stop()
		points = first.reachedArmed()
	}()
	c := &endingCase{k: k, path: filepath.Join(dir, "lines")}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	task, err := c.ask(ctx, "first")
	if err != nil {
		return nil, err
	}
	if err := first.arm(ctx, die); err != nil {
		return nil, err
	}
	err = e.do(ctx, conversationv1.NewTopicServiceClient(first.conn), c.topicID)
	if c := status.Code(err); c == codes.Unavailable || c == codes.Canceled && ctx.Err() == nil {
		<-first.done // all its points are known
	} else if err != nil {
		return nil, err
	}
	if err != nil && !slices.Contains(first.reachedArmed(), e.commit+".after") {
		err = acrossRestarts(ctx, k, func(conn *grpc.ClientConn) error {
			return e.do(ctx, conversationv1.NewTopicServiceClient(conn), c.topicID)
		})
		if err != nil && status.Code(err) != codes.NotFound { // it was stored, and the agent or topic is gone
			return nil, err
		}
	}
	if err := c.wantCancelled(ctx, task); err != nil {
		return nil, err
	}
	// The outbox is worked off in order: once the third message is considered, the ending has left the outbox.
	if err := c.join(ctx); err != nil {
		return nil, err
	}
	for _, id := range []string{"second", "third"} {
		if task, err = c.ask(ctx, id); err != nil {
			return nil, err
		}
		later, err := c.task(ctx, task)
		if err != nil || later.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING && later.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING {
			return nil, fmt.Errorf("the task of the %s message is %v, %w", id, later, err)
		}
	}
	return nil, nil
}

// endingCase is a topic of a person and an agent whose tasks wait.
type endingCase struct {
	k       *keeper
	topicID string
	audit   *talkAudit
	path    string
}

func (c *endingCase) begin(ctx context.Context) error {
	return acrossRestarts(ctx, c.k, func(conn *grpc.ClientConn) error {
		_, err := executorv1.NewAgentServiceClient(conn).CreateAgent(ctx, &executorv1.CreateAgentRequest{
			AgentId: asker, Agent: &executorv1.Agent{Confirm: executorv1.Confirm_CONFIRM_ALWAYS, McpIds: []string{"t"}},
		})
		if err != nil {
			return err
		}
		return c.newTopic(ctx, conn)
	})
}

// newTopic makes a topic with the agent the one in which the case goes on.
func (c *endingCase) newTopic(ctx context.Context, conn *grpc.ClientConn) error {
	topic, err := conversationv1.NewTopicServiceClient(conn).CreateTopic(ctx, &conversationv1.CreateTopicRequest{
		Participants: []*conversationv1.Participant{{Who: &conversationv1.Participant_AgentId{AgentId: asker}}},
	})
	c.topicID, c.audit = topic.GetId(), &talkAudit{}
	return err
}

// join adds the agent unless it is there, or makes another topic if the topic was deleted.
func (c *endingCase) join(ctx context.Context) error {
	return acrossRestarts(ctx, c.k, func(conn *grpc.ClientConn) error {
		_, err := conversationv1.NewTopicServiceClient(conn).AddParticipant(ctx, &conversationv1.AddParticipantRequest{
			TopicId: c.topicID, Participant: &conversationv1.Participant{Who: &conversationv1.Participant_AgentId{AgentId: asker}},
		})
		switch status.Code(err) {
		case codes.AlreadyExists:
			return nil
		case codes.NotFound:
			return c.newTopic(ctx, conn)
		default:
			return err
		}
	})
}

// ask posts a message that asks for a call, and returns the agent's task once it waits for an approval.
func (c *endingCase) ask(ctx context.Context, id string) (task string, err error) {
	ext, err := structpb.NewStruct(map[string]any{"tool_call": map[string]any{
		"server_id": "t", "tool_name": "write", "params": map[string]any{"path": c.path, "line": id},
	}})
	if err != nil {
		return "", err
	}
	err = acrossRestarts(ctx, c.k, func(conn *grpc.ClientConn) error {
		_, err := conversationv1.NewTopicServiceClient(conn).PostMessage(ctx, &conversationv1.PostMessageRequest{
			TopicId: c.topicID, Message: &conversationv1.Message{Id: id, Text: "@" + asker + " write a line", Ext: ext},
		})
		return err
	})
	if err != nil {
		return "", err
	}
	return task, acrossRestarts(ctx, c.k, func(conn *grpc.ClientConn) error {
		stream, err := conversationv1.NewTopicServiceClient(conn).WatchTopic(ctx, &conversationv1.WatchTopicRequest{TopicId: c.topicID, AfterSeq: c.audit.seq})
		for err == nil && task == "" {
			var e *conversationv1.TopicEvent
			if e, err = stream.Recv(); err != nil {
				break
			}
			if e.GetMessageId() == id && e.GetNewMessage().GetWait() != nil {
				task = e.GetTaskId()
			}
			err = c.audit.event(e)
		}
		return err
	})
}

func (c *endingCase) task(ctx context.Context, id string) (task *executorv1.Task, err error) {
	return task, acrossRestarts(ctx, c.k, func(conn *grpc.ClientConn) (err error) {
		task, err = executorv1.NewExecutorServiceClient(conn).GetTask(ctx, &executorv1.GetTaskRequest{Id: id})
		return err
	})
}

// wantCancelled waits until a task has ended, and returns an error if it was not cancelled.
func (c *endingCase) wantCancelled(ctx context.Context, id string) error {
	err := acrossRestarts(ctx, c.k, func(conn *grpc.ClientConn) error {
		stream, err := executorv1.NewExecutorServiceClient(conn).WatchTask(ctx, &executorv1.WatchTaskRequest{Id: id})
		for err == nil {
			_, err = stream.Recv()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the task does not end: %w", err)
	}
	task, err := c.task(ctx, id)
	if err == nil && task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED {
		err = fmt.Errorf("the task is %s", task.GetStatus())
	}
	return err
}
