package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/prompt"
)

type planAnswer struct {
	MainTask string `json:"main_task"`
	Subtasks []struct {
		ID          string   `json:"id"`
		Title       string   `json:"title"`
		Description string   `json:"description"`
		DependsOn   []string `json:"depends_on"`
	} `json:"subtasks"`
}

const planSchema = `{"type":"object","properties":{"main_task":{"type":"string"},"subtasks":{"type":"array","minItems":1,"items":{"type":"object","properties":{` +
	`"id":{"type":"string","minLength":1},"title":{"type":"string","minLength":1},"description":{"type":"string","minLength":1},"depends_on":{"type":"array","items":{"type":"string"}}},` +
	`"required":["id","title","description","depends_on"],"additionalProperties":false}}},"required":["main_task","subtasks"],"additionalProperties":false}`

// CreatePlan implements Planner. Unknown dependencies and cycles go back to the model with their path (D7).
func (m *Model) CreatePlan(ctx context.Context, req *plannerv1.CreatePlanRequest) (*plannerv1.CreatePlanResponse, error) {
	const usual = 10
	s := m.session(req.GetContext())
	most := int(cmp.Or(req.GetMaxSubtasks(), usual))
	var order []int
	a, err := question(ctx, m, s, "create_plan", most, planSchema, func(a *planAnswer) (err error) {
		if len(a.Subtasks) > most {
			return fmt.Errorf("there are %d subtasks; at most %d are allowed", len(a.Subtasks), most)
		}
		order, err = orderOf(a)
		return err
	})
	if err != nil {
		return nil, err
	}
	res := &plannerv1.CreatePlanResponse{MainTask: prompt.Line(a.MainTask), Usage: s.usage()}
	for _, i := range order {
		st := a.Subtasks[i]
		res.Subtasks = append(res.Subtasks, &plannerv1.Subtask{Id: st.ID, Title: prompt.Line(st.Title), Description: st.Description, DependsOn: st.DependsOn})
	}
	return res, nil
}

// orderOf returns the indexes of the subtasks so that each comes after those it depends on.
func orderOf(a *planAnswer) ([]int, error) {
	byID := map[string]int{}
	for i, st := range a.Subtasks {
		if _, twice := byID[st.ID]; twice {
			return nil, fmt.Errorf("the id %q is used twice", st.ID)
		}
		byID[st.ID] = i
	}
	var order []int
	state := make([]int, len(a.Subtasks)) // 0: new, 1: on the path, 2: done
	var path []string
	var visit func(i int) error
	visit = func(i int) error {
		path = append(path, a.Subtasks[i].ID)
		defer func() { path = path[:len(path)-1] }()
		switch state[i] {
		case 1:
			return fmt.Errorf("the dependencies have a cycle: %s", strings.Join(path[slices.Index(path, a.Subtasks[i].ID):], " → "))
		case 2:
			return nil
		}
		state[i] = 1
		for _, id := range a.Subtasks[i].DependsOn {
			j, ok := byID[id]
			if !ok {
				return fmt.Errorf("%s depends on %q, which is not a subtask", strings.Join(path, " → "), id)
			}
			if err := visit(j); err != nil {
				return err
			}
		}
		state[i] = 2
		order = append(order, i)
		return nil
	}
	for i := range a.Subtasks {
		if err := visit(i); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// Think implements Planner.
func (m *Model) Think(ctx context.Context, req *plannerv1.ThinkRequest, emit func(string) error) (*plannerv1.ThinkResult, error) {
	s := m.session(req.GetContext())
	t, err := m.act(ctx, s, "think", struct{ Subtask, Observation string }{req.GetSubtask(), req.GetObservation()}, &gate{emit: emit})
	if err != nil {
		return nil, err
	}
	return &plannerv1.ThinkResult{Thought: cmp.Or(t.text, t.answer), Steps: t.steps, Usage: s.usage()}, nil
}

// SelectTools implements Planner.
func (m *Model) SelectTools(ctx context.Context, req *plannerv1.SelectToolsRequest) (*plannerv1.SelectToolsResponse, error) {
	s := m.session(req.GetContext())
	t, err := m.act(ctx, s, "select_tools", nil, &gate{})
	if err != nil {
		return nil, err
	}
	for _, st := range t.steps {
		if st.GetUnresolved() {
			return nil, s.unusable(1, "a call refers to the output of another one, but they are independent")
		}
	}
	return &plannerv1.SelectToolsResponse{Steps: t.steps, Usage: s.usage()}, nil
}

// act asks for a turn with the page of that name behind the conversation.
func (m *Model) act(ctx context.Context, s *session, name string, data any, g *gate) (*turn, error) {
	page, err := m.prompts.Render(name, s.tc, data)
	if err != nil {
		return nil, s.fail(err)
	}
	return m.decide(ctx, s, page, g)
}

type reflectAnswer struct {
	Done    bool   `json:"done"`
	Summary string `json:"summary"`
	Next    string `json:"next"`
}

const reflectSchema = `{"type":"object","properties":{"done":{"type":"boolean"},"summary":{"type":"string"},"next":{"type":"string"}},"required":["done","summary","next"],"additionalProperties":false}`

// Reflect implements Planner.
func (m *Model) Reflect(ctx context.Context, req *plannerv1.ReflectRequest) (*plannerv1.ReflectResponse, error) {
	s := m.session(req.GetContext())
	a, err := question(ctx, m, s, "reflect", req.GetSubtask(), reflectSchema, func(a *reflectAnswer) error {
		if !a.Done && strings.TrimSpace(a.Next) == "" {
			return errors.New("`next` must say what to do, since it is not done")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if a.Done {
		a.Next = ""
	}
	return &plannerv1.ReflectResponse{Done: a.Done, Summary: a.Summary, Next: a.Next, Usage: s.usage()}, nil
}

type decideAnswer struct {
	Decision   string `json:"decision"`
	Reason     string `json:"reason"`
	Question   string `json:"question"`
	DelegateTo string `json:"delegate_to"`
}

const decideSchema = `{"type":"object","properties":{"decision":{"type":"string","enum":["REPLY","SILENT","ASK_HUMAN","DELEGATE"]},"reason":{"type":"string"},` +
	`"question":{"type":"string"},"delegate_to":{"type":"string"}},"required":["decision","reason"],"additionalProperties":false}`

// Decide implements Planner.
func (m *Model) Decide(ctx context.Context, req *plannerv1.DecideRequest) (*plannerv1.DecideResponse, error) {
	s := m.session(req.GetContext())
	data := struct {
		Sender string
		Agents []string
	}{req.GetSender(), req.GetAgents()}
	a, err := question(ctx, m, s, "decide", data, decideSchema, func(a *decideAnswer) error {
		switch {
		case a.Decision == "DELEGATE" && !slices.Contains(req.GetAgents(), a.DelegateTo):
			return errors.New("`delegate_to` must be one of the agents")
		case a.Decision == "ASK_HUMAN" && strings.TrimSpace(a.Question) == "":
			return errors.New("`question` is missing")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	res := &plannerv1.DecideResponse{Decision: plannerv1.Decision(plannerv1.Decision_value["DECISION_"+a.Decision]), Reason: a.Reason, Usage: s.usage()}
	switch res.GetDecision() {
	case plannerv1.Decision_DECISION_ASK_HUMAN:
		res.Question = a.Question
	case plannerv1.Decision_DECISION_DELEGATE:
		res.DelegateTo = a.DelegateTo
	}
	return res, nil
}

// SummarizeMemory implements Planner.
func (m *Model) SummarizeMemory(ctx context.Context, req *plannerv1.SummarizeMemoryRequest) (*plannerv1.SummarizeMemoryResponse, error) {
	s := m.session(req.GetContext())
	history := s.tc.GetHistory()
	memory, err := m.compact(ctx, s, s.tc.GetMemory(), history[summarized(s.tc.GetMemory(), history):])
	if err != nil {
		return nil, err
	}
	summary := memory.GetSummary()
	var batch strings.Builder
	for i, message := range req.GetMessages() {
		batch.WriteString(messageText(message))
		if last := i == len(req.GetMessages())-1; last || estimate(batch.String()) > s.budget()/2 {
			if summary, err = m.summarize(ctx, s, summary, batch.String()); err != nil {
				return nil, err
			}
			batch.Reset()
		}
	}
	return &plannerv1.SummarizeMemoryResponse{Summary: summary, Usage: s.usage()}, nil
}

// messageText renders a message of a conversation as data.
func messageText(message *plannerv1.ModelMessage) string {
	var parts []string
	for _, p := range message.GetParts() {
		switch part := p.GetPart().(type) {
		case *plannerv1.ModelPart_Text:
			parts = append(parts, part.Text)
		case *plannerv1.ModelPart_ToolCall:
			parts = append(parts, part.ToolCall.GetName()+" "+part.ToolCall.GetInputJson())
		case *plannerv1.ModelPart_ToolResult:
			parts = append(parts, part.ToolResult.GetText())
		case *plannerv1.ModelPart_Image:
			parts = append(parts, "[image "+part.Image.GetMimeType()+"]")
		case *plannerv1.ModelPart_Audio:
			parts = append(parts, "[audio "+part.Audio.GetMimeType()+"]")
		}
	}
	role := "user"
	if message.GetRole() == plannerv1.ModelRole_MODEL_ROLE_ASSISTANT {
		role = "assistant"
	}
	return role + ":\n" + prompt.Fence(strings.Join(parts, "\n")) + "\n\n"
}
