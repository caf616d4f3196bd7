// Package hooks has the commands for webhooks.
package hooks

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"pawl.dev/cmd/internal/cli/chat"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Cmd is `pawl webhooks`.
type Cmd struct {
	List       ListCmd       `cmd:"" default:"1" group:"sub" help:"List your webhooks."`
	Show       ShowCmd       `cmd:"" group:"sub" help:"Show a webhook."`
	Create     CreateCmd     `cmd:"" group:"sub" help:"Create a webhook, and show its secret."`
	Enable     EnableCmd     `cmd:"" group:"sub" help:"Enable a webhook that was disabled."`
	Disable    DisableCmd    `cmd:"" group:"sub" help:"Disable a webhook: no events are collected or delivered."`
	Rotate     RotateCmd     `cmd:"" group:"sub" help:"Make a new secret; the old one signs too for 24 hours."`
	Test       TestCmd       `cmd:"" group:"sub" help:"Post a test event, and show how the receiver answers."`
	Deliveries DeliveriesCmd `cmd:"" group:"sub" help:"List the deliveries that are pending or have failed."`
	Redeliver  RedeliverCmd  `cmd:"" group:"sub" help:"Deliver again."`
	Delete     DeleteCmd     `cmd:"" group:"sub" help:"Delete a webhook with its deliveries."`
}

// ListCmd is `pawl webhooks list`.
type ListCmd struct{}

// Run lists webhooks.
func (c *ListCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	list, err := discover.All(ctx, s.Webhooks.ListWebhooks, &executorv1.ListWebhooksRequest{})
	t := u.Table("ID", "STATE", "EVENTS OF", "TYPES", "URL", "NAME")
	for _, w := range list.GetWebhooks() {
		t.Row(ui.ShortID(w.GetId()), state(w), source(w), types(w), w.GetUrl(), w.GetDisplayName())
	}
	return u.List(list, err, t, "no webhooks; pawl webhooks create URL makes one")
}

func state(w *executorv1.Webhook) string {
	if w.GetDisabled() {
		return "disabled"
	}
	return "enabled"
}

// source describes whose events a webhook gets.
func source(w *executorv1.Webhook) string {
	switch {
	case w.GetTopicId() != "":
		return "topic " + ui.ShortID(w.GetTopicId())
	case w.GetAgentId() != "":
		return "agent " + w.GetAgentId()
	}
	return "all tasks"
}

func types(w *executorv1.Webhook) string {
	return cmp.Or(strings.Join(w.GetEventTypes(), ","), "default")
}

// One names a webhook.
type One struct {
	Webhook string `arg:"" complete:"webhook" help:"The webhook: its id, 4 or more characters of its beginning or end, or its name."`
}

// find returns the webhook.
func (c *One) find(ctx context.Context, s *discover.Session) (*executorv1.Webhook, error) {
	if id, err := uuid.Parse(c.Webhook); err == nil {
		return s.Webhooks.GetWebhook(ctx, &executorv1.GetWebhookRequest{Id: id.String()})
	}
	list, err := discover.All(ctx, s.Webhooks.ListWebhooks, &executorv1.ListWebhooksRequest{})
	if err != nil {
		return nil, err
	}
	return ui.Find(list.GetWebhooks(), c.Webhook, "webhook", s.Flags())
}

// ShowCmd is `pawl webhooks show`.
type ShowCmd struct{ One }

// Run shows a webhook.
func (c *ShowCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	w, err := c.find(ctx, s)
	return show(u, w, "", err)
}

// show prints a webhook and what was done to it, or returns err.
func show(u *ui.UI, w *executorv1.Webhook, done string, err error) error {
	if err != nil || u.JSON {
		return u.Show(w, err, nil)
	}
	st := u.OutStyle()
	u.Printf("%s\n", strings.TrimSpace("webhook "+st.Bold(w.GetId())+" "+done))
	row := func(name, value string) { u.Printf("%s", st.Field(name, 9, value)) }
	row("name", w.GetDisplayName())
	row("url", w.GetUrl())
	row("events of", source(w))
	row("types", types(w))
	row("disabled", map[bool]string{true: cmp.Or(w.GetDisabledReason(), "by you")}[w.GetDisabled()])
	row("secret", w.GetSecret())
	if w.GetSecret() != "" {
		u.Eprintf("the secret is not shown again; the receiver verifies with it\n")
	}
	return nil
}

// CreateCmd is `pawl webhooks create`.
type CreateCmd struct {
	URL   string   `arg:"" help:"Where events are posted, such as https://example.com/pawl."`
	Name  string   `placeholder:"TEXT" help:"A name for people."`
	Agent string   `xor:"source" complete:"agent" placeholder:"ID" help:"Only events of your tasks that run as this agent (default: of all your tasks)."`
	Topic string   `xor:"source" complete:"topic" placeholder:"TOPIC" help:"Events of this topic instead of tasks; named as in pawl topics show."`
	Event []string `sep:"none" placeholder:"TYPE" help:"Type of events, such as task.flow_success or topic.new_message (repeatable; default: what asks a person and what ends a task, or the messages of the topic)."`
}

// Run creates a webhook.
func (c *CreateCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	var topic *conversationv1.Topic
	if c.Topic != "" {
		var err error
		if topic, err = chat.Find(ctx, s, c.Topic); err != nil {
			return err
		}
	}
	w, err := s.Webhooks.CreateWebhook(ctx, &executorv1.CreateWebhookRequest{RequestId: uuid.NewString(), Webhook: &executorv1.Webhook{
		Url: c.URL, DisplayName: c.Name, AgentId: c.Agent, TopicId: topic.GetId(), EventTypes: c.Event,
	}})
	return show(u, w, "is created", err)
}

// EnableCmd is `pawl webhooks enable`.
type EnableCmd struct{ One }

// Run enables a webhook.
func (c *EnableCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	return c.set(ctx, u, s, false, "is enabled")
}

// DisableCmd is `pawl webhooks disable`.
type DisableCmd struct{ One }

// Run disables a webhook.
func (c *DisableCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	return c.set(ctx, u, s, true, "is disabled")
}

func (c *One) set(ctx context.Context, u *ui.UI, s *discover.Session, disabled bool, done string) error {
	w, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	w, err = s.Webhooks.UpdateWebhook(ctx, &executorv1.UpdateWebhookRequest{
		Webhook: &executorv1.Webhook{Id: w.GetId(), Disabled: disabled}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"disabled"}},
	})
	return u.Result(w, err, "webhook %s %s", ui.ShortID(w.GetId()), done)
}

// RotateCmd is `pawl webhooks rotate`.
type RotateCmd struct{ One }

// Run makes a new secret.
func (c *RotateCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	w, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	w, err = s.Webhooks.RotateWebhookSecret(ctx, &executorv1.RotateWebhookSecretRequest{Id: w.GetId()})
	return show(u, w, "has a new secret", err)
}

// TestCmd is `pawl webhooks test`.
type TestCmd struct{ One }

// Run posts a test event. It fails if the receiver does not accept it.
func (c *TestCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	w, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	r, err := s.Webhooks.TestWebhook(ctx, &executorv1.TestWebhookRequest{Id: w.GetId()})
	if err != nil {
		return err
	}
	if u.JSON {
		if err := u.Document(r); err != nil {
			return err
		}
	}
	if !r.GetDelivered() {
		return ui.Errorf("the test was not delivered: %s", ui.Line(r.GetError()))
	}
	if u.JSON {
		return nil
	}
	u.Printf("delivered: HTTP %d in %s\n", r.GetHttpStatus(), ui.Duration(r.GetDuration().AsDuration()))
	return nil
}

// DeliveriesCmd is `pawl webhooks deliveries`.
type DeliveriesCmd struct {
	One
	Failed bool `help:"Only dead letters: those that are not attempted any more."`
}

// Run lists deliveries.
func (c *DeliveriesCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	w, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	req := &executorv1.ListWebhookDeliveriesRequest{WebhookId: w.GetId()}
	if c.Failed {
		req.State = executorv1.WebhookDeliveryState_WEBHOOK_DELIVERY_STATE_FAILED
	}
	list, err := discover.All(ctx, s.Webhooks.ListWebhookDeliveries, req)
	t := u.Table("ID", "STATE", "AGE", "TYPE", "OF", "ATTEMPTS", "WHY")
	for _, d := range list.GetDeliveries() {
		of := "task " + ui.ShortID(d.GetTaskId())
		if d.GetTopicId() != "" {
			of = "topic " + ui.ShortID(d.GetTopicId())
		}
		t.Row(d.GetId(), ui.EnumName(d.GetState()), ui.Age(d.GetCreateTime().AsTime(), u.Now()), d.GetEventType(), of, strconv.Itoa(int(d.GetAttempts())), d.GetError())
	}
	return u.List(list, err, t, "nothing is pending, and nothing has failed")
}

// RedeliverCmd is `pawl webhooks redeliver`.
type RedeliverCmd struct {
	One
	ID  string `arg:"" optional:"" help:"The delivery."`
	All bool   `help:"All that have failed."`
}

// Run delivers again.
func (c *RedeliverCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	if (c.ID == "") != c.All {
		return ui.Usagef("name one delivery, or give --all").Then("pawl webhooks deliveries%s %s lists them", s.Flags(), c.Webhook)
	}
	w, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	ids := []string{c.ID}
	if c.All {
		failed, err := discover.All(ctx, s.Webhooks.ListWebhookDeliveries, &executorv1.ListWebhookDeliveriesRequest{
			WebhookId: w.GetId(), State: executorv1.WebhookDeliveryState_WEBHOOK_DELIVERY_STATE_FAILED,
		})
		if err != nil {
			return err
		}
		ids = nil
		for _, d := range failed.GetDeliveries() {
			ids = append(ids, d.GetId())
		}
	}
	list := &executorv1.ListWebhookDeliveriesResponse{}
	for _, id := range ids {
		d, err := s.Webhooks.RedeliverWebhookDelivery(ctx, &executorv1.RedeliverWebhookDeliveryRequest{WebhookId: w.GetId(), Id: id})
		if err != nil {
			return err
		}
		list.Deliveries = append(list.Deliveries, d)
	}
	return u.Result(list, nil, "pending again: %d", len(ids))
}

// DeleteCmd is `pawl webhooks delete`.
type DeleteCmd struct{ One }

// Run deletes a webhook.
func (c *DeleteCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	w, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	answer, err := s.Webhooks.DeleteWebhook(ctx, &executorv1.DeleteWebhookRequest{Id: w.GetId()})
	return u.Result(answer, err, "webhook %s is deleted", ui.ShortID(w.GetId()))
}
