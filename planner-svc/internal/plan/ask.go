package plan

import (
	"context"
	"encoding/json"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/llm"
)

// maxLast is how much of the last wrong reply an error shows, in bytes.
const maxLast = 900

// ask asks for a JSON answer of a schema and decodes it. check finds what a schema cannot; it may be nil. A wrong answer goes back with the
// problem, m.tries tries in all (A18); then ask fails with the reason and the last answer.
func ask[T any](ctx context.Context, m *Model, s *session, r *llm.Request, output llm.Output, check func(*T) error) (*T, error) {
	compiled, err := schema.Compile(output.Schema)
	if err != nil {
		return nil, s.fail(err)
	}
	if s.info.Schema == llm.SchemaInPrompt {
		page, err := m.prompts.Render("json", s.tc, output.Schema)
		if err != nil {
			return nil, s.fail(err)
		}
		r.System = strings.TrimSpace(r.System + "\n\n" + page)
	} else {
		r.Output = &output
	}
	for try := 1; ; try++ {
		reply, err := s.generate(ctx, r, nil)
		if err != nil {
			return nil, err
		}
		answer, err := decode(compiled, reply, check)
		if err == nil {
			return answer, nil
		}
		s.wrong(ctx, try, reply, err)
		if try >= m.tries {
			return nil, s.unusable(try, err.Error())
		}
		page, perr := m.prompts.Render("correction", s.tc, err.Error())
		if perr != nil {
			return nil, s.fail(perr)
		}
		text := reply.Text
		if strings.TrimSpace(text) == "" {
			text = "{}"
		}
		r.Messages = append(r.Messages, llm.AssistantText(text), llm.UserText(page))
	}
}

// Structured asks for JSON of a schema. The reply's text is JSON that fits it.
func (m *Model) Structured(ctx context.Context, r *llm.Request, outputSchema string) (*llm.Reply, error) {
	s := m.session(&plannerv1.TaskContext{})
	if _, err := schema.Compile(outputSchema); err != nil {
		return nil, invalid("output_schema_json", "%w", err)
	}
	answer, err := ask[json.RawMessage](ctx, m, s, r, llm.Output{Name: "output", Schema: outputSchema}, nil)
	if err != nil {
		return nil, err
	}
	s.reply.Text, s.reply.Usage = string(*answer), s.used
	return s.reply, nil
}

// wrong logs a reply that cannot be used and keeps it for the error.
func (s *session) wrong(ctx context.Context, try int, reply *llm.Reply, problem error) {
	s.last = reply.Text
	for _, c := range reply.Calls {
		s.last += "\n" + c.Name + " " + c.Arguments
	}
	if len(s.last) > maxLast {
		s.last = strings.ToValidUTF8(s.last[:maxLast], "") + " …"
	}
	s.log.WarnContext(ctx, "a model's reply cannot be used", "task_id", s.tc.GetTaskId(), "model", s.info.Name, "try", try, "problem", problem.Error())
}

func decode[T any](s *schema.Schema, reply *llm.Reply, check func(*T) error) (*T, error) {
	text := extractJSON(reply.Text)
	if err := s.Validate(text); err != nil {
		return nil, err
	}
	var answer T
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, err
	}
	if check != nil {
		if err := check(&answer); err != nil {
			return nil, err
		}
	}
	return &answer, nil
}

// extractJSON finds the JSON object in a model's text: the whole text, else the last code block that is one, else the longest object within the
// text. If there is none it returns the text, whose validation then says what is wrong.
func extractJSON(text string) string {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\uFEFF"))
	if isObject(text) {
		return text
	}
	blocks := strings.Split(text, "```")
	for i := len(blocks) - 2; i > 0; i-- {
		block := blocks[i]
		if language, rest, ok := strings.Cut(block, "\n"); ok && !strings.ContainsAny(language, "{[") {
			block = rest
		}
		if block = strings.TrimSpace(block); isObject(block) {
			return block
		}
	}
	longest := ""
	for from, failures := 0, 0; from < len(text) && failures < maxFailures; {
		i := strings.IndexByte(text[from:], '{')
		if i < 0 {
			break
		}
		from += i
		var raw json.RawMessage
		d := json.NewDecoder(strings.NewReader(text[from:]))
		if d.Decode(&raw) != nil {
			from++
			failures++
			continue
		}
		if len(raw) > len(longest) {
			longest = string(raw)
		}
		from += len(raw)
	}
	if longest != "" {
		return longest
	}
	return text
}

// maxFailures bounds the search for an object in texts with many unbalanced braces, each of which may have to be read to the end.
const maxFailures = 100

func isObject(text string) bool { return strings.HasPrefix(text, "{") && json.Valid([]byte(text)) }
