package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Wherever the executor dies while an agent answers a message of a topic and another one cannot, each says so once, and no seq is missing (B1, B18).
func TestEveryPointOfATopic(t *testing.T) {
	dir := filepath.Join(programs.data, t.Name())
	points, err := talk(t.Context(), filepath.Join(dir, "0"), 0)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(points, " ")
	for _, want := range []string{"Post.before", "Post.after", "Create.before", "Create.after", "Commit.before", "Commit.after", "Dispatched.before"} {
		if !strings.Contains(all, want) {
			t.Errorf("the point %s was not reached: %s", want, all)
		}
	}
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for die := range numbers {
				if reached, err := talk(t.Context(), filepath.Join(dir, strconv.Itoa(die)), die); err != nil {
					t.Errorf("died at point %d of %v: %v", die, reached, err)
				}
			}
		})
	}
	for die := 1; die <= len(points); die++ {
		numbers <- die
	}
	close(numbers)
	wg.Wait()
	t.Logf("%d points", len(points))
}

// talk posts a message to a topic of two agents, one of which was deleted, and returns the points of the process that dies at one of them, and what is wrong.
func talk(ctx context.Context, dir string, die int) (points []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	k, err := keep([]string{"PAWL_CRASH_DIE=" + strconv.Itoa(die)}, "-data", dir, "-mcp-config", programs.config, "all")
	if err != nil {
		return nil, err
	}
	first := k.current()
	defer func() {
		k.stop()
		points = first.reached()
	}()
	id, err := beginTalk(ctx, k)
	if err != nil {
		return nil, err
	}
	a := &talkAudit{}
	err = acrossRestarts(ctx, k, func(conn *grpc.ClientConn) error {
		stream, err := conversationv1.NewTopicServiceClient(conn).WatchTopic(ctx, &conversationv1.WatchTopicRequest{TopicId: id, AfterSeq: a.seq})
		for err == nil && !a.done() {
			var e *conversationv1.TopicEvent
			if e, err = stream.Recv(); err == nil {
				err = a.event(e)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w, after %v", err, a)
	}
	// The outbox is worked off in order: once a second message is answered, nothing comes of the first one.
	if err := say(ctx, k, id, "second"); err != nil {
		return nil, err
	}
	return nil, acrossRestarts(ctx, k, func(conn *grpc.ClientConn) error {
		stream, err := conversationv1.NewTopicServiceClient(conn).WatchTopic(ctx, &conversationv1.WatchTopicRequest{TopicId: id, AfterSeq: a.seq})
		for err == nil && !a.secondDone() {
			var e *conversationv1.TopicEvent
			if e, err = stream.Recv(); err == nil {
				err = a.event(e)
			}
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
}

// acrossRestarts makes a request, and makes it again each time the executor dies during it.
func acrossRestarts(ctx context.Context, k *keeper, do func(*grpc.ClientConn) error) error {
	for n := 0; ; {
		p, count, err := k.after(ctx, n)
		if err != nil {
			return err
		}
		n = count
		err = do(p.conn)
		if c := status.Code(err); c != codes.Unavailable && (c != codes.Canceled || ctx.Err() != nil) {
			return err
		}
	}
}

// beginTalk creates the topic and posts its first message.
func beginTalk(ctx context.Context, k *keeper) (id string, err error) {
	req := &conversationv1.CreateTopicRequest{RequestId: "talk"}
	for _, agent := range []string{"helper", "gone"} {
		req.Participants = append(req.Participants, &conversationv1.Participant{Who: &conversationv1.Participant_AgentId{AgentId: agent}})
	}
	err = acrossRestarts(ctx, k, func(conn *grpc.ClientConn) error {
		agents := executorv1.NewAgentServiceClient(conn)
		for _, p := range req.GetParticipants() {
			_, err := agents.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: p.GetAgentId(), Agent: &executorv1.Agent{Confirm: executorv1.Confirm_CONFIRM_NEVER}})
			if err != nil && status.Code(err) != codes.AlreadyExists {
				return err
			}
		}
		topic, err := conversationv1.NewTopicServiceClient(conn).CreateTopic(ctx, req)
		if err != nil {
			return err
		}
		id = topic.GetId()
		_, err = agents.DeleteAgent(ctx, &executorv1.DeleteAgentRequest{Id: "gone"})
		return err
	})
	if err != nil {
		return "", err
	}
	return id, say(ctx, k, id, "first")
}

func say(ctx context.Context, k *keeper, topicID, id string) error {
	return acrossRestarts(ctx, k, func(conn *grpc.ClientConn) error {
		_, err := conversationv1.NewTopicServiceClient(conn).PostMessage(ctx, &conversationv1.PostMessageRequest{
			TopicId: topicID, Message: &conversationv1.Message{Id: id, Text: "@helper what can you do?"},
		})
		return err
	})
}

// talkAudit is what a watcher was shown.
type talkAudit struct {
	seq uint64
	// count counts messages, replies and silences, by what they are about.
	count map[string]int
}

func (a *talkAudit) event(e *conversationv1.TopicEvent) error {
	if a.count == nil {
		a.count = map[string]int{}
	}
	if e.GetSeq() != a.seq+1 {
		return fmt.Errorf("event %d follows event %d", e.GetSeq(), a.seq)
	}
	a.seq = e.GetSeq()
	var what string
	switch {
	case e.GetNewMessage().GetFromAgent():
		what = "reply to " + e.GetMessageId()
	case e.GetNewMessage() != nil:
		what = "message " + e.GetNewMessage().GetId()
	case e.GetAgentSilent() != nil:
		what = "silence of " + e.GetAgent() + " about " + e.GetMessageId()
	default:
		return nil
	}
	if a.count[what]++; a.count[what] > 1 {
		return fmt.Errorf("the %s is there %d times", what, a.count[what])
	}
	return nil
}

func (a *talkAudit) answered(id string) bool {
	return a.count["message "+id] == 1 && a.count["reply to "+id] == 1 && a.count["silence of gone about "+id] == 1
}

func (a *talkAudit) done() bool       { return a.answered("first") }
func (a *talkAudit) secondDone() bool { return a.answered("first") && a.answered("second") }
