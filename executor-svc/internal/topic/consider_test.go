package topic_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/topic"
)

// of returns a topic: names in lower case are people, others agents.
func of(names ...string) *storagev1.Topic {
	t := &storagev1.Topic{}
	for _, n := range names {
		p := &storagev1.Participant{Name: n, DisplayName: "the " + n}
		if strings.ToLower(n) == n {
			p.UserSub = "sub-" + n
		} else {
			p.AgentId, p.AddedBy = "id-"+n, "sub-ann"
		}
		t.Participants = append(t.Participants, p)
	}
	return t
}

// describe shows who considers a message: `A` responds, `A?` decides, `A!` is refused.
func describe(cs []topic.Considerer) string {
	var out []string
	for _, c := range cs {
		s := c.Agent.GetName()
		switch {
		case c.Refused != "":
			s += "!"
		case c.Chat.GetDecide():
			s += "?"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// B2, and the bounds of delegation.
func TestWhoConsidersAMessage(t *testing.T) {
	const call = `{"tool_call":{"server_id":"s","tool_name":"t","params":{"x":1}}}`
	for name, tc := range map[string]struct {
		topic   *storagev1.Topic
		message *storagev1.TopicMessage
		rolled  bool
		want    string
	}{
		"private":                       {topic: of("ann", "A"), message: &storagev1.TopicMessage{Sender: "ann", Text: "hello"}, want: "A"},
		"no agents":                     {topic: of("ann", "bob"), message: &storagev1.TopicMessage{Sender: "ann", Text: "@bob"}},
		"two people":                    {topic: of("ann", "bob", "A"), message: &storagev1.TopicMessage{Sender: "ann", Text: "hello"}, want: "A?"},
		"two agents":                    {topic: of("ann", "A", "B"), message: &storagev1.TopicMessage{Sender: "ann", Text: "hello"}, want: "A? B?"},
		"mentioned in the text":         {topic: of("ann", "A", "B"), message: &storagev1.TopicMessage{Sender: "ann", Text: "@a, hello"}, want: "A B?"},
		"mentioned in the list":         {topic: of("ann", "A", "B"), message: &storagev1.TopicMessage{Sender: "ann", Mentions: []string{"B"}}, want: "A? B"},
		"both mentioned":                {topic: of("ann", "A", "B"), message: &storagev1.TopicMessage{Sender: "ann", Text: "@B @A"}, want: "A B"},
		"an answer to a wait":           {topic: of("ann", "A"), message: &storagev1.TopicMessage{Sender: "ann", AnsweredWaitId: "w"}},
		"rolled back":                   {topic: of("ann", "A"), message: &storagev1.TopicMessage{Sender: "ann", Text: "x"}, rolled: true},
		"of an agent":                   {topic: of("ann", "A", "B"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, Text: "@B hello"}},
		"a wait":                        {topic: of("ann", "A", "B"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, ExtJson: `{"auto_trigger":true}`, Wait: &storagev1.WaitNote{}}},
		"auto_trigger":                  {topic: of("ann", "A", "B", "C"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, ExtJson: `{"auto_trigger":true}`}, want: "B C"},
		"auto_trigger with a mention":   {topic: of("ann", "A", "B", "C"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, Text: "@C", ExtJson: `{"auto_trigger":true}`}, want: "C"},
		"auto_trigger after others":     {topic: of("ann", "A", "B", "C"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, PassedBy: []string{"C"}, ExtJson: `{"auto_trigger":true}`}, want: "B"},
		"a failed server":               {topic: of("ann", "A", "B"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, ExtJson: `{"auto_trigger":true,"mcp_error":{"class":"network"}}`}},
		"a step of its own process":     {topic: of("ann", "A", "B"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, Rounds: 10, ExtJson: call}, want: "A"},
		"too many steps":                {topic: of("ann", "A", "B"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, Rounds: 11, ExtJson: call}, want: "A!"},
		"an invalid step":               {topic: of("ann", "A", "B"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, ExtJson: `{"tool_call":{"tool_name":"t"}}`}},
		"a step of a removed agent":     {topic: of("ann", "B"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, ExtJson: call}},
		"delegated":                     {topic: of("ann", "A", "B", "C"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, DelegateTo: "B"}, want: "B?"},
		"delegated to itself":           {topic: of("ann", "A", "B"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, DelegateTo: "A"}, want: "A!"},
		"delegated back":                {topic: of("ann", "A", "B"), message: &storagev1.TopicMessage{Sender: "B", FromAgent: true, PassedBy: []string{"A"}, DelegateTo: "A"}, want: "A!"},
		"delegated to a removed agent":  {topic: of("ann", "A"), message: &storagev1.TopicMessage{Sender: "A", FromAgent: true, DelegateTo: "B"}},
		"the fifth delegation":          {topic: of("ann", "F"), message: &storagev1.TopicMessage{Sender: "E", FromAgent: true, PassedBy: []string{"A", "B", "C", "D"}, DelegateTo: "F"}, want: "F"},
		"the sixth delegation":          {topic: of("ann", "G"), message: &storagev1.TopicMessage{Sender: "F", FromAgent: true, PassedBy: []string{"A", "B", "C", "D", "E"}, DelegateTo: "G"}, want: "G!"},
		"a person's tool_call":          {topic: of("ann", "A"), message: &storagev1.TopicMessage{Sender: "ann", ExtJson: call}, want: "A"},
		"a person's auto_trigger":       {topic: of("ann", "bob", "A"), message: &storagev1.TopicMessage{Sender: "ann", ExtJson: `{"auto_trigger":true}`}, want: "A?"},
		"a person who was removed":      {topic: of("ann", "A"), message: &storagev1.TopicMessage{Sender: "bob", Text: "x"}, want: "A"},
		"a person named like a mention": {topic: of("ann", "bob", "A"), message: &storagev1.TopicMessage{Sender: "ann", Text: "@bob"}, want: "A?"},
	} {
		t.Run(name, func(t *testing.T) {
			got := topic.Considerers("topic-1", tc.topic, &journal.TopicMessage{Seq: 7, RolledBack: tc.rolled, TopicMessage: tc.message})
			if describe(got) != tc.want {
				t.Errorf("considered by %q, want %q", describe(got), tc.want)
			}
		})
	}
}

func TestChatOfATask(t *testing.T) {
	top := of("ann", "A", "B", "D")
	m := &journal.TopicMessage{Seq: 7, TopicMessage: &storagev1.TopicMessage{
		Id: "m", Sender: "B", FromAgent: true, PassedBy: []string{"C"}, DelegateTo: "A", ExtJson: `{"use_new_flow":true}`,
	}}
	got := topic.Considerers("topic-1", top, m)[0].Chat
	want := &storagev1.Chat{
		TopicId: "topic-1", MessageId: "m", MessageSeq: 7, Agent: "A", AgentName: "the A", Sender: "B", FromAgent: true, Phases: true,
		PassedBy: []string{"C", "B"}, OtherAgents: []string{"D"}, Decide: true,
	}
	if got.String() != want.String() {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestMentions(t *testing.T) {
	top := of("ann", "bob", "bob-smith", "小明", "小明明", "Élodie")
	for text, want := range map[string]string{
		"@bob": "bob", "@bob.": "bob", "@bob, @ann": "ann bob", "(@Bob)": "bob", "@bob-smith": "bob-smith", "@bob-jones": "", "@bobby": "",
		"x@bob.com": "", "@": "", "@ bob": "", "hello @小明你好": "小明", "@小明明": "小明明", "@bob你好": "bob", "@élodie!": "Élodie", "@@bob": "bob", "@bob's": "bob",
	} {
		if got := strings.Join(topic.Mentioned(top, &storagev1.TopicMessage{Text: text}), " "); got != want {
			t.Errorf("%q mentions %q, want %q", text, got, want)
		}
	}
}

// Whatever agents post to each other, no agent considers twice what has passed it, and the conversation ends after a bounded number of agents.
func TestAgentsCannotKeepEachOtherBusy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := make([]string, rapid.IntRange(1, 9).Draw(t, "agents"))
		for i := range names {
			names[i] = fmt.Sprintf("A%d", i)
		}
		top := of(append([]string{"ann"}, names...)...)
		first := &storagev1.TopicMessage{Id: "0", Sender: "ann", Text: rapid.SampledFrom([]string{"hello", "@A0", "@A1 @A0"}).Draw(t, "text")}
		// An agent that considers a message answers with anything that a flow may post.
		type turn struct {
			message *storagev1.TopicMessage
			hops    int
		}
		for queue, seq := []turn{{message: first}}, uint64(1); len(queue) > 0; seq++ {
			at := queue[0]
			queue = queue[1:]
			for _, c := range topic.Considerers("t", top, &journal.TopicMessage{Seq: seq, TopicMessage: at.message}) {
				if c.Refused != "" {
					continue
				}
				own := at.message.GetFromAgent() && at.message.GetSender() == c.Chat.GetAgent()
				if by := c.Chat.GetPassedBy(); len(by) > topic.MaxPassedBy || !own && slices.Contains(by, c.Chat.GetAgent()) {
					t.Fatalf("%s considers what passed %v", c.Chat.GetAgent(), by)
				}
				if at.hops > topic.MaxPassedBy+1 || c.Chat.GetRounds() > topic.MaxRounds {
					t.Fatalf("%d hops, %d rounds", at.hops, c.Chat.GetRounds())
				}
				reply := &storagev1.TopicMessage{Id: fmt.Sprint(seq), Sender: c.Chat.GetAgent(), FromAgent: true, Rounds: c.Chat.GetRounds()}
				reply.PassedBy = append(slices.Clone(c.Chat.GetPassedBy()), c.Chat.GetAgent())
				hops := at.hops + 1
				switch rapid.IntRange(0, 4).Draw(t, "reply") {
				case 0:
					reply.DelegateTo = rapid.SampledFrom(names).Draw(t, "to")
				case 1:
					reply.ExtJson = `{"auto_trigger":true}`
				case 2: // its own process goes on
					reply.ExtJson, reply.PassedBy, hops = `{"tool_call":{"tool_id":"s/t"}}`, c.Chat.GetPassedBy(), at.hops
					reply.Rounds++
				case 3:
					reply.Text = "@" + names[0]
				}
				if len(queue) < 50 {
					queue = append(queue, turn{reply, hops})
				}
			}
		}
	})
}
