package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/llm"
)

// followUp continues the exchange with the model after a reply that is not the final one.
type followUp struct {
	problem  error                     // why the reply cannot be used; nil: the model searched for tools, which is not a failed attempt
	messages []*plannerv1.ModelMessage // the reply and the answer to it
}

// askUntilValid calls the model until accept returns nil, at most s.tries attempts (A18). The messages of a follow-up are appended to the
// next request. After the last attempt it fails with the reason and the last reply.
func (s *session) askUntilValid(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error, accept func(*llm.Reply) *followUp) error {
	for try := 1; ; {
		reply, err := s.generate(ctx, r, onDelta)
		if err != nil {
			return err
		}
		c := accept(reply)
		if c == nil {
			return nil
		}
		if c.problem != nil {
			s.log.WarnContext(ctx, "a model's reply cannot be used", "task_id", s.tc.GetTaskId(), "model", s.info.Name, "try", try, "problem", c.problem.Error())
			if try >= s.tries {
				return s.unusable(try, c.problem.Error(), reply)
			}
			try++
		}
		r.Messages = append(r.Messages, c.messages...)
	}
}

// ask asks for a JSON answer of a schema and decodes it. check finds what a schema cannot; it may be nil.
func ask[T any](ctx context.Context, s *session, r *llm.Request, output llm.Output, check func(*T) error) (answer *T, err error) {
	compiled, err := s.expect(r, output)
	if err != nil {
		return nil, err
	}
	err = s.askUntilValid(ctx, r, nil, func(reply *llm.Reply) *followUp {
		var problem error
		if answer, problem = decode(compiled, reply, check); problem == nil {
			return nil
		}
		return s.correctJSON(reply, problem)
	})
	return answer, err
}

// expect makes a request ask for JSON of a schema: natively if the model can do that, else in the prompt.
func (s *session) expect(r *llm.Request, output llm.Output) (*schema.Schema, error) {
	if s.info.Schema == llm.SchemaInPrompt {
		r.System = strings.TrimSpace(r.System + "\n\n" + s.renderPrompt("json", output.Schema))
	} else {
		r.Output = &output
	}
	return schema.Compile(output.Schema)
}

// correctJSON answers a reply that is not the JSON that was asked for.
func (s *session) correctJSON(reply *llm.Reply, problem error) *followUp {
	said := cmp.Or(strings.TrimSpace(reply.Text), "{}")
	return &followUp{problem, []*plannerv1.ModelMessage{llm.AssistantText(said), llm.UserText(s.renderPrompt("correction", problem.Error()))}}
}

// Structured asks for JSON of a schema. The reply's text is JSON that fits it.
func (m *Model) Structured(ctx context.Context, r *llm.Request, outputSchema string) (*llm.Reply, error) {
	s := m.session(&plannerv1.TaskContext{})
	if _, err := schema.Compile(outputSchema); err != nil {
		return nil, Invalid("output_schema_json", "%w", err)
	}
	answer, err := ask[json.RawMessage](ctx, s, r, llm.Output{Name: "output", Schema: outputSchema}, nil)
	if err != nil {
		return nil, err
	}
	s.reply.Text, s.reply.Usage = string(*answer), s.used
	return s.reply, nil
}

func decode[T any](s *schema.Schema, reply *llm.Reply, check func(*T) error) (*T, error) {
	text := extractJSON(reply.Text)
	err := s.Validate(text)
	if err != nil {
		return nil, err
	}
	answer := new(T)
	if message, ok := any(answer).(proto.Message); ok {
		err = protojson.Unmarshal([]byte(text), message)
	} else {
		err = json.Unmarshal([]byte(text), answer)
	}
	if err == nil && check != nil {
		err = check(answer)
	}
	return answer, err
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
		if json.NewDecoder(strings.NewReader(text[from:])).Decode(&raw) != nil {
			from++
			failures++
			continue
		}
		if len(raw) > len(longest) {
			longest = string(raw)
		}
		from += len(raw)
	}
	return cmp.Or(longest, text)
}

// maxFailures bounds the search for an object in texts with many unbalanced braces, each of which may have to be read to the end.
const maxFailures = 100

func isObject(text string) bool { return strings.HasPrefix(text, "{") && json.Valid([]byte(text)) }
