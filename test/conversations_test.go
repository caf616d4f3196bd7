package test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/identity"

	"pawl.dev/test/modelserver/modeltest"
	"pawl.dev/test/rig"
	testcasev1 "pawl.dev/test/testcase/v1"
)

// TestConversationCases runs every file of cases/conversations/ in one process and in four, over both protocols, each with another provider's model.
func TestConversationCases(t *testing.T) {
	files, err := filepath.Glob("cases/conversations/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for name, start := range map[string]func(testing.TB, rig.Options) *rig.Target{
		"in-process":     rig.InProcess,
		"four-processes": func(t testing.TB, o rig.Options) *rig.Target { return rig.FourProcesses(t, binaries, o) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, key := keys(t)
			people := map[string]string{}
			for name, roles := range map[string][]identity.Role{"ann": {identity.RoleUser, identity.RoleOperator}, "bob": {identity.RoleUser}, "cat": {identity.RoleUser}} {
				people[name] = key(name, roles...)
			}
			var model atomic.Pointer[modeltest.Server] // of the case that runs
			asServer := map[string]string{rig.ServerVariable: "1"}
			config := modelsAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { model.Load().ServeHTTP(w, r) }), 128_000, "")
			target := start(t, rig.Options{
				Workspace: workspace(t), Models: config, Keys: path, Key: people["ann"], ServiceKey: key("executor", identity.RoleService),
				Servers: map[string]any{
					"down":      map[string]any{"command": filepath.Join(t.TempDir(), "nothing")},
					"dormant":   map[string]any{"command": os.Args[0], "env": asServer, "autoActivate": false},
					"impatient": map[string]any{"command": os.Args[0], "env": asServer, "timeout": "300ms", "tools": map[string]any{"slow": map[string]any{"effect": "read"}}},
				},
			})
			for i, protocol := range []string{"grpc", "rest"} {
				clients := map[string]member{}
				for name, key := range people {
					clients[name] = member{rig.REST{Base: target.HTTP, Key: key}, rig.REST{Base: target.HTTP, Key: key}}
					if protocol == "grpc" {
						conn := rig.Dial(t, target.Executor.Target(), key)
						clients[name] = member{rig.NewGRPC(conn), rig.NewGRPCTopics(conn)}
					}
				}
				for _, file := range files {
					t.Run(protocol+"/"+strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
						p := &talk{t: t, people: clients, rest: protocol == "rest", model: modelNames[i], seen: map[string]uint64{}}
						p.dir = t.TempDir()
						p.read(file)
						p.server = modeltest.New(&modeltest.Script{Turns: p.turns()}, nil)
						model.Store(p.server)
						p.run()
					})
				}
			}
		})
	}
}

// member is a person with clients.
type member struct {
	rig.Client
	rig.Topics
}

// talk runs one case over one protocol.
type talk struct {
	*testcasev1.Conversation
	t      *testing.T
	people map[string]member
	rest   bool
	model  string // of the agents that name none
	server *modeltest.Server
	dir    string

	topic *conversationv1.Topic
	wait  *conversationv1.Message // the newest message that asks
	seen  map[string]uint64       // by the agent and the messages whose events were read
}

func (p *talk) read(file string) {
	p.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(string(raw), "{{dir}}", p.dir)))
	if err != nil {
		p.t.Fatalf("%s: %v", file, err)
	}
	p.Conversation = &testcasev1.Conversation{}
	if err := protojson.Unmarshal(asJSON, p.Conversation); err != nil {
		p.t.Fatalf("%s: %v", file, err)
	}
	if len(p.GetShows()) == 0 || p.GetAbout() == "" {
		p.t.Fatalf("%s: say what it is about and which acceptance ids it shows", file)
	}
}

// turns returns the model's turns, followed by the turns that all cases share.
func (p *talk) turns() []modeltest.Turn {
	script := ""
	for _, turn := range p.GetTurns() {
		raw, err := protojson.Marshal(turn)
		if err != nil {
			p.t.Fatal(err)
		}
		script += "- " + string(raw) + "\n"
	}
	all, err := modeltest.Parse("turns:\n" + script + `
- {when: {last: "Call all tools that this message needs"}, text: none, always: true}
- {when: {contains: Summarize what follows}, text: It was done., always: true}
`)
	if err != nil {
		p.t.Fatal(err)
	}
	return all.Turns
}

func (p *talk) run() {
	ctx, cancel := context.WithTimeout(p.t.Context(), caseTimeout)
	defer cancel()
	defer func() { rejected(p.t, p.server) }()
	p.begin(ctx)
	for i, act := range p.GetActs() {
		err := p.act(ctx, act)
		if r := act.GetRefused(); r != nil {
			checkRefused(p.t, r, p.rest, err)
		} else if err != nil {
			p.t.Fatalf("act %d (%v): %v", i+1, act, err)
		}
	}
	p.checkEnd(ctx)
}

// begin makes the topic with its participants.
func (p *talk) begin(ctx context.Context) {
	p.t.Helper()
	ann := p.people["ann"]
	req := &conversationv1.CreateTopicRequest{Topic: &conversationv1.Topic{DisplayName: "a case"}}
	for _, name := range p.GetPeople() {
		req.Participants = append(req.Participants, &conversationv1.Participant{Who: &conversationv1.Participant_UserSub{UserSub: name}})
	}
	for _, name := range slices.Sorted(maps.Keys(p.GetAgents())) {
		agent := p.GetAgents()[name]
		if len(p.GetTurns()) > 0 {
			agent.Model = cmp.Or(agent.GetModel(), p.model)
		}
		made, err := ann.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: name + "-" + uuid.NewString()[:8], Agent: agent})
		if err != nil {
			p.t.Fatal(err)
		}
		req.Participants = append(req.Participants, &conversationv1.Participant{
			Name: name, AvatarUrl: "https://example.com/" + name + ".png", Who: &conversationv1.Participant_AgentId{AgentId: made.GetId()},
		})
	}
	var err error
	if p.topic, err = ann.CreateTopic(ctx, req); err != nil {
		p.t.Fatal(err)
	}
}

// act carries out an act. An error is a refusal.
func (p *talk) act(ctx context.Context, act *testcasev1.Act) (err error) {
	p.t.Helper()
	by, id := p.people[cmp.Or(act.GetBy(), "ann")], p.topic.GetId()
	switch a := act.GetAct().(type) {
	case *testcasev1.Act_Post:
		_, err = by.PostMessage(ctx, &conversationv1.PostMessageRequest{TopicId: id, Message: a.Post})
	case *testcasev1.Act_Answer:
		_, err = by.PostMessage(ctx, &conversationv1.PostMessageRequest{TopicId: id, Message: &conversationv1.Message{ReplyTo: p.wait.GetId()}, Answer: a.Answer})
	case *testcasev1.Act_Resume:
		_, err = by.Resume(ctx, p.resume(a.Resume))
	case *testcasev1.Act_Interrupt:
		_, err = by.InterruptAgent(ctx, id, a.Interrupt)
	case *testcasev1.Act_Rollback:
		_, err = by.RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: id, ToMessageId: a.Rollback})
	case *testcasev1.Act_Rename:
		_, err = by.UpdateTopic(ctx, &conversationv1.Topic{Id: id, DisplayName: a.Rename})
	case *testcasev1.Act_Archive:
		_, err = by.ArchiveTopic(ctx, id, a.Archive)
	case *testcasev1.Act_Delete:
		err = by.DeleteTopic(ctx, id, a.Delete)
	case *testcasev1.Act_Add:
		_, err = by.AddParticipant(ctx, id, a.Add)
	case *testcasev1.Act_Remove:
		err = by.RemoveParticipant(ctx, id, a.Remove)
	case *testcasev1.Act_Expect:
		p.expect(ctx, by, a.Expect)
	case *testcasev1.Act_Until:
		p.until(ctx, by, a.Until)
	case *testcasev1.Act_Asked:
		p.asked(a.Asked)
	}
	return err
}

// resume returns the request that gives an answer to the newest wait.
func (p *talk) resume(a *conversationv1.WaitAnswer) *executorv1.ResumeTaskRequest {
	req := &executorv1.ResumeTaskRequest{Id: p.wait.GetTaskId(), WaitId: p.wait.GetWait().GetId()}
	switch a := a.GetAnswer().(type) {
	case *conversationv1.WaitAnswer_Approve:
		req.Answer = &executorv1.ResumeTaskRequest_Approve{Approve: a.Approve}
	case *conversationv1.WaitAnswer_Reject:
		req.Answer = &executorv1.ResumeTaskRequest_Reject{Reject: a.Reject}
	case *conversationv1.WaitAnswer_Params:
		req.Answer = &executorv1.ResumeTaskRequest_Params{Params: a.Params}
	case *conversationv1.WaitAnswer_Outcome:
		req.Answer = &executorv1.ResumeTaskRequest_Outcome{Outcome: a.Outcome}
	case *conversationv1.WaitAnswer_Input:
		req.Answer = &executorv1.ResumeTaskRequest_Input{Input: a.Input}
	}
	return req
}

// events reads the events of an agent's work on messages, or all, until each returns false.
func (p *talk) events(ctx context.Context, by member, agent, messages string, each func(*conversationv1.TopicEvent) bool) {
	p.t.Helper()
	after, about := p.seen[agent+messages], regexp.MustCompile(messages)
	var newest *conversationv1.TopicEvent
	if !p.GetFromStart() {
		after = max(after, p.topic.GetLastSeq())
	}
	err := by.WatchTopic(ctx, p.topic.GetId(), after, func(e *conversationv1.TopicEvent) bool {
		if e.GetSeq() != after+1 {
			p.t.Errorf("event %d follows event %d", e.GetSeq(), after)
		}
		after, newest = e.GetSeq(), e
		if e.GetNewMessage().GetWait() != nil {
			p.wait = e.GetNewMessage()
		}
		return agent != "" && e.GetAgent() != agent || !about.MatchString(e.GetMessageId()) || each(e)
	})
	if err != nil {
		p.t.Fatalf("watching after event %d (%v): %v", after, newest, err)
	}
	p.seen[agent+messages] = after
}

// until reads events until one is as described. If the agent ends its work on the message otherwise, the case ends at once.
func (p *talk) until(ctx context.Context, by member, want *conversationv1.TopicEvent) {
	p.t.Helper()
	about := cmp.Or(want.GetMessageId(), want.GetNewMessage().GetReplyTo())
	p.events(ctx, by, want.GetAgent(), "", func(e *conversationv1.TopicEvent) bool {
		if len(differences(want.ProtoReflect(), e.ProtoReflect())) == 0 {
			return false
		}
		m, done := e.GetNewMessage(), e.GetStreamDone()
		ext := m.GetExt().GetFields()
		isReply := m != nil && want.GetNewMessage() != nil && m.GetWait() == nil && ext["mcp_error"] == nil && ext["tool_call"] == nil
		isLast := isReply || e.GetAgentSilent() != nil || done.GetError() != "" && !done.GetRestarts()
		if isLast && want.GetAgent() != "" && (about == "" || sameText(about, e.GetMessageId())) {
			p.t.Fatalf("%v\nwant %v", e, want)
		}
		return true
	})
}

// expect reads events until there are as many as expected or one differs.
func (p *talk) expect(ctx context.Context, by member, want *testcasev1.Expected) {
	p.t.Helper()
	var got []*conversationv1.TopicEvent
	differ := func(i int) []string { return differences(want.GetEvents()[i].ProtoReflect(), got[i].ProtoReflect()) }
	p.events(ctx, by, want.GetAgent(), want.GetMessageId(), func(e *conversationv1.TopicEvent) bool {
		n := len(got)
		if c := e.GetStreamChunk(); n > 0 && c != nil && got[n-1].GetStreamChunk().GetReplyId() == c.GetReplyId() {
			got[n-1].GetStreamChunk().Text += c.GetText()
		} else if got = append(got, e); n > 0 && len(differ(n-1)) > 0 {
			return false
		}
		n = len(got)
		return n < len(want.GetEvents()) || len(got[n-1].GetStreamChunk().GetText()) < len(want.GetEvents()[n-1].GetStreamChunk().GetText())
	})
	var problems []string
	for i := range got {
		for _, d := range differ(i) {
			problems = append(problems, fmt.Sprintf("event %d: %s", got[i].GetSeq(), d))
		}
	}
	if len(problems) > 0 {
		p.t.Fatalf("%s\n%v", strings.Join(problems, "\n"), got)
	}
}

// differences compares the fields that are set in want. A text that begins with ~ is a regular expression.
func differences(want, got protoreflect.Message) (all []string) {
	add := func(f protoreflect.FieldDescriptor, where string, w, g protoreflect.Value) {
		for _, d := range difference(f, w, g) {
			all = append(all, where+d)
		}
	}
	want.Range(func(f protoreflect.FieldDescriptor, w protoreflect.Value) bool {
		g, name := got.Get(f), string(f.Name())
		switch {
		case f.IsMap():
			w.Map().Range(func(k protoreflect.MapKey, w protoreflect.Value) bool {
				if g.Map().Has(k) {
					add(f.MapValue(), "."+k.String(), w, g.Map().Get(k))
				} else {
					all = append(all, "."+k.String()+" is missing")
				}
				return true
			})
		case f.IsList() && w.List().Len() != g.List().Len():
			all = append(all, fmt.Sprintf(".%s has %d items, want %d", name, g.List().Len(), w.List().Len()))
		case f.IsList():
			for i := range w.List().Len() {
				add(f, fmt.Sprintf(".%s[%d]", name, i), w.List().Get(i), g.List().Get(i))
			}
		default:
			add(f, "."+name, w, g)
		}
		return true
	})
	return all
}

func difference(f protoreflect.FieldDescriptor, want, got protoreflect.Value) []string {
	if f.Message() != nil {
		return differences(want.Message(), got.Message())
	}
	if want.Equal(got) || f.Kind() == protoreflect.StringKind && sameText(want.String(), got.String()) {
		return nil
	}
	return []string{fmt.Sprintf(" is %q, want %q", got, want)}
}

// sameText compares texts. If want begins with ~, the rest is a regular expression.
func sameText(want, got string) bool {
	if pattern, is := strings.CutPrefix(want, "~"); is {
		return regexp.MustCompile(pattern).MatchString(got)
	}
	return want == got
}

// asked checks the newest request that the model got.
func (p *talk) asked(want *testcasev1.Asked) {
	p.t.Helper()
	all := p.server.Requests()
	if len(all) == 0 {
		p.t.Fatal("the model was not asked")
	}
	r := all[len(all)-1]
	text := r.System + "\n" + strings.Join(r.Texts, "\n")
	if want.GetProvider() != "" && r.Provider != want.GetProvider() {
		p.t.Errorf("%s was asked, want %s", r.Provider, want.GetProvider())
	}
	for _, s := range want.GetContains() {
		if !strings.Contains(text, s) {
			p.t.Errorf("the model was not told %q:\n%s", s, text)
		}
	}
	for _, s := range want.GetLacks() {
		if strings.Contains(text, s) {
			p.t.Errorf("the model was told %q:\n%s", s, text)
		}
	}
}

// checkEnd compares the messages and the effects.
func (p *talk) checkEnd(ctx context.Context) {
	p.t.Helper()
	if len(p.GetMessages()) > 0 {
		list, err := p.people["ann"].ListMessages(ctx, p.topic.GetId())
		if err != nil {
			p.t.Fatal(err)
		}
		var got []string
		for _, m := range slices.Backward(list.GetMessages()) {
			got = append(got, m.GetSender()+": "+m.GetText())
		}
		if d := gocmp.Diff(p.GetMessages(), got); d != "" {
			p.t.Errorf("messages (-want +got):\n%s", d)
		}
	}
	raw, err := os.ReadFile(filepath.Join(p.dir, "effects.txt"))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	if d := gocmp.Diff(strings.Join(p.GetEffects(), "\n"), strings.TrimSpace(string(raw))); d != "" {
		p.t.Errorf("effects (-want +got):\n%s", d)
	}
}
