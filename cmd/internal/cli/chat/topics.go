package chat

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
)

// TopicsCmd is `pawl topics`.
type TopicsCmd struct {
	List    ListCmd    `cmd:"" default:"1" group:"sub" help:"List your topics, the most recently active first."`
	Show    ShowCmd    `cmd:"" group:"sub" help:"Show a topic: its participants and last messages."`
	Create  CreateCmd  `cmd:"" group:"sub" help:"Create a topic."`
	Add     AddCmd     `cmd:"" group:"sub" help:"Add a person or an agent to a topic."`
	Remove  RemoveCmd  `cmd:"" group:"sub" help:"Remove a participant from a topic."`
	Archive ArchiveCmd `cmd:"" group:"sub" help:"Archive a topic: nothing more can be posted."`
	Delete  DeleteCmd  `cmd:"" group:"sub" help:"Delete a topic with all its messages."`
	Export  ExportCmd  `cmd:"" group:"sub" help:"Write everything about a topic as one JSON document."`
}

// ListCmd is `pawl topics list`.
type ListCmd struct {
	All   bool   `short:"a" help:"Archived topics too."`
	Agent string `complete:"agent" placeholder:"ID" help:"Only topics with this agent."`
}

// Run lists topics.
func (c *ListCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	list, err := discover.All(ctx, s.Topics.ListTopics, &conversationv1.ListTopicsRequest{IncludeArchived: c.All, AgentId: c.Agent})
	t := u.Table("ID", "ACTIVE", "PARTICIPANTS", "NAME")
	for _, topic := range list.GetTopics() {
		t.Row(ui.ShortID(topic.GetId()), ui.Age(topic.GetActiveTime().AsTime(), u.Now()), strings.Join(names(topic), ","), title(topic))
	}
	return u.List(list, err, t, "no topics; pawl chat --agent ID begins one")
}

// title returns a topic's name for people.
func title(t *conversationv1.Topic) string {
	name := cmp.Or(t.GetDisplayName(), "-")
	if t.GetArchived() {
		name += " (archived)"
	}
	return name
}

func names(t *conversationv1.Topic) (all []string) {
	for _, p := range t.GetParticipants() {
		all = append(all, p.GetName())
	}
	return all
}

// OneTopic names a topic.
type OneTopic struct {
	Topic string `arg:"" complete:"topic" help:"The topic: its id, 4 or more characters of its beginning or end, its name, or last for the most recently active one: by its newest message or, without messages, its creation."`
}

// Find returns the topic that a reference names.
func Find(ctx context.Context, s *discover.Session, ref string) (*conversationv1.Topic, error) {
	if id, err := uuid.Parse(ref); err == nil {
		return s.Topics.GetTopic(ctx, &conversationv1.GetTopicRequest{Id: id.String()})
	}
	list, err := discover.All(ctx, s.Topics.ListTopics, &conversationv1.ListTopicsRequest{IncludeArchived: true})
	if err != nil {
		return nil, err
	}
	all := list.GetTopics()
	if ref == "last" && len(all) > 0 {
		return all[0], nil
	}
	return ui.Find(all, ref, "topic", s.Flags())
}

// ShowCmd is `pawl topics show`.
type ShowCmd struct {
	OneTopic
	Limit int32 `short:"n" default:"10" placeholder:"N" help:"Show the last N messages (default ${default})."`
}

// Run shows a topic.
func (c *ShowCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	topic, err := Find(ctx, s, c.Topic)
	if err != nil || u.JSON {
		return u.Show(topic, err, nil)
	}
	st := u.OutStyle()
	u.Printf("topic %s %s\n", st.Bold(topic.GetId()), ui.Line(title(topic)))
	if topic.GetDescription() != "" {
		u.Printf("%s\n", ui.Line(topic.GetDescription()))
	}
	for _, p := range topic.GetParticipants() {
		u.Printf("  %s\n", participantText(p))
	}
	messages, err := last(ctx, s, topic.GetId(), c.Limit)
	for _, m := range messages {
		u.Printf("%s %s\n", st.Bold(ui.Line(m.GetSender())+":"), ui.Text(m.GetText()))
		for _, media := range m.GetMedia() {
			u.Printf("  %s\n", ui.Line(mediaText(media)))
		}
	}
	return err
}

// participantText describes a participant on one line.
func participantText(p *conversationv1.Participant) string {
	if p.GetAgentId() != "" {
		return ui.Line(fmt.Sprintf("@%s  agent %s, added by %s", p.GetName(), p.GetAgentId(), p.GetAddedBy()))
	}
	return ui.Line(fmt.Sprintf("@%s  %s (%s)", p.GetName(), p.GetUserSub(), ui.EnumName(p.GetRole())))
}

// last returns the last messages of a topic, oldest first.
func last(ctx context.Context, s *discover.Session, topicID string, limit int32) ([]*conversationv1.Message, error) {
	if limit < 1 || limit > 1000 {
		return nil, ui.Usagef("--limit must be from 1 to 1000")
	}
	page, err := s.Topics.ListMessages(ctx, &conversationv1.ListMessagesRequest{TopicId: topicID, PageSize: limit})
	slices.Reverse(page.GetMessages())
	return page.GetMessages(), err
}

// CreateCmd is `pawl topics create`.
type CreateCmd struct {
	Name        string   `arg:"" optional:"" help:"A name for people."`
	Description string   `placeholder:"TEXT" help:"What it is about; agents read this text."`
	Agent       []string `complete:"agent" placeholder:"ID" help:"An agent of yours that takes part (repeatable)."`
	User        []string `placeholder:"SUB" help:"A user who takes part as a member (repeatable)."`
}

// Run creates a topic.
func (c *CreateCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	req := &conversationv1.CreateTopicRequest{Topic: &conversationv1.Topic{DisplayName: c.Name, Description: c.Description}, RequestId: uuid.NewString()}
	for _, id := range c.Agent {
		req.Participants = append(req.Participants, &conversationv1.Participant{Who: &conversationv1.Participant_AgentId{AgentId: id}})
	}
	for _, sub := range c.User {
		req.Participants = append(req.Participants, &conversationv1.Participant{Name: nameOf(sub), Who: &conversationv1.Participant_UserSub{UserSub: sub}})
	}
	topic, err := s.Topics.CreateTopic(ctx, req)
	return u.Result(topic, err, "topic %s is created; pawl chat %s%s opens it", topic.GetId(), ui.ShortID(topic.GetId()), s.Flags())
}

// unnameable matches what a participant's name cannot have.
var unnameable = regexp.MustCompile(`[^\p{L}\p{N}]+`)

// nameOf makes a participant's name of a user's id.
func nameOf(sub string) string { return strings.Trim(unnameable.ReplaceAllString(sub, "-"), "-") }

// AddCmd is `pawl topics add`.
type AddCmd struct {
	OneTopic
	Agent string  `xor:"who" required:"" complete:"agent" placeholder:"ID" help:"The agent; one of yours. It acts with your rights."`
	User  string  `xor:"who" required:"" placeholder:"SUB" help:"The user."`
	Name  string  `placeholder:"NAME" help:"The name in the topic, by which messages mention it (default: the agent's or user's id)."`
	Role  *string `enum:"owner,member,reader" placeholder:"ROLE" help:"What a person may do: owner, member or reader (default: member)."`
}

// Run adds a participant.
func (c *AddCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	topic, err := Find(ctx, s, c.Topic)
	if err != nil {
		return err
	}
	var role conversationv1.Role
	if c.Role != nil {
		role = ui.EnumValue[conversationv1.Role](*c.Role)
	}
	p := &conversationv1.Participant{Name: c.Name, Who: &conversationv1.Participant_AgentId{AgentId: c.Agent}, Role: role}
	if c.User != "" {
		p.Name, p.Who = cmp.Or(c.Name, nameOf(c.User)), &conversationv1.Participant_UserSub{UserSub: c.User}
	}
	added, err := s.Topics.AddParticipant(ctx, &conversationv1.AddParticipantRequest{TopicId: topic.GetId(), Participant: p})
	return u.Result(added, err, "@%s takes part in topic %s", added.GetName(), ui.ShortID(topic.GetId()))
}

// RemoveCmd is `pawl topics remove`.
type RemoveCmd struct {
	OneTopic
	Name string `arg:"" help:"The participant's name in the topic."`
}

// Run removes a participant.
func (c *RemoveCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	topic, err := Find(ctx, s, c.Topic)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(c.Name, "@")
	res, err := s.Topics.RemoveParticipant(ctx, &conversationv1.RemoveParticipantRequest{TopicId: topic.GetId(), Name: name})
	return u.Result(res, err, "@%s has left topic %s", ui.Line(name), ui.ShortID(topic.GetId()))
}

// ArchiveCmd is `pawl topics archive`.
type ArchiveCmd struct{ OneTopic }

// Run archives a topic.
func (c *ArchiveCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	topic, err := Find(ctx, s, c.Topic)
	if err != nil {
		return err
	}
	topic, err = s.Topics.ArchiveTopic(ctx, &conversationv1.ArchiveTopicRequest{Id: topic.GetId()})
	return u.Result(topic, err, "topic %s is archived", ui.ShortID(topic.GetId()))
}

// DeleteCmd is `pawl topics delete`.
type DeleteCmd struct{ OneTopic }

// Run deletes a topic.
func (c *DeleteCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	topic, err := Find(ctx, s, c.Topic)
	if err != nil {
		return err
	}
	res, err := s.Topics.DeleteTopic(ctx, &conversationv1.DeleteTopicRequest{Id: topic.GetId()})
	return u.Result(res, err, "topic %s is deleted", ui.ShortID(topic.GetId()))
}

// ExportCmd is `pawl topics export`.
type ExportCmd struct {
	OneTopic
	Output string `short:"o" type:"path" placeholder:"FILE" help:"Write to this file, which appears once it is complete (default: standard output)."`
}

// Run exports a topic.
func (c *ExportCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	topic, err := Find(ctx, s, c.Topic)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.Topics.ExportTopic(ctx, &conversationv1.ExportTopicRequest{Id: topic.GetId()})
	if err != nil {
		return err
	}
	n, err := u.Export(c.Output, func() ([]byte, error) {
		piece, err := stream.Recv()
		return piece.GetData(), err
	})
	if c.Output == "" {
		return err
	}
	return u.Result(map[string]any{"topic": topic.GetId(), "file": c.Output, "bytes": n}, err, "topic %s is exported to %s (%s)",
		ui.ShortID(topic.GetId()), ui.Line(c.Output), ui.Bytes(n))
}
