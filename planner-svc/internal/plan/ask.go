package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/prompt"
)

// askUntilValid calls the model until accept returns no messages. It appends the messages (the reply and the response to it) to the next
// request. A problem makes the reply a failed attempt; after s.tries failed attempts the error holds the problem and the last reply.
func (s *session) askUntilValid(ctx context.Context, r *llm.Request, onDelta func(llm.Delta) error,
	accept func(*llm.Reply) (messages []*plannerv1.ModelMessage, problem error),
) error {
	for try := 1; ; {
		reply, err := s.generate(ctx, r, onDelta)
		if err != nil {
			return err
		}
		messages, problem := accept(reply)
		if len(messages) == 0 {
			return nil
		}
		if problem != nil {
			s.log.WarnContext(ctx, "a model's reply cannot be used", "task_id", s.tc.GetTaskId(), "model", s.info.Name, "try", try, "problem", problem.Error())
			if try >= s.tries {
				return s.unusableReply(try, problem.Error(), reply)
			}
			try++
		}
		r.Messages = append(r.Messages, messages...)
	}
}

// ask asks for a JSON answer that fits a schema. accept turns the decoded answer into the result, or returns a problem that the schema cannot
// express.
func ask[T, R any](ctx context.Context, s *session, r *llm.Request, output llm.Output, accept func(*T) (R, error)) (result R, err error) {
	compiled, err := s.expect(r, output)
	if err != nil {
		return result, err
	}
	err = s.askUntilValid(ctx, r, nil, func(reply *llm.Reply) ([]*plannerv1.ModelMessage, error) {
		answer, problem := decode[T](compiled, reply)
		if problem == nil {
			result, problem = accept(answer)
		}
		if problem == nil {
			return nil, nil
		}
		return s.correctJSON(reply, problem), problem
	})
	if err != nil {
		var none R
		return none, err
	}
	return result, nil
}

// expect sets the schema of the reply and returns it compiled. If the model has no native support for schemas, the prompt holds the schema.
func (s *session) expect(r *llm.Request, output llm.Output) (*schema.Schema, error) {
	if !s.info.Schema {
		r.System = strings.TrimSpace(r.System + "\n\n" + prompt.Render("json", s.tc, output.Schema))
	} else {
		r.Output = &output
	}
	return schema.Compile(output.Schema)
}

// correctJSON returns the messages to append: a JSON reply that cannot be used, and the request to correct it.
func (s *session) correctJSON(reply *llm.Reply, problem error) []*plannerv1.ModelMessage {
	text := cmp.Or(strings.TrimSpace(reply.Text), "{}")
	return []*plannerv1.ModelMessage{llm.AssistantText(text), llm.UserText(prompt.Render("correction", s.tc, problem.Error()))}
}

// Generate answers a request and writes the reply's text to emit. budget holds the limits on model calls, tokens and cost; its other fields may
// be empty. With an outputSchema, the text is JSON that fits it. An error carries the usage of the calls.
func (m *Model) Generate(ctx context.Context, budget *plannerv1.TaskContext, r *llm.Request, outputSchema string, emit func(string) error) (*llm.Reply, error) {
	s := m.session(budget)
	if outputSchema == "" {
		return s.generate(ctx, r, func(d llm.Delta) error {
			if d.Text == "" {
				return nil
			}
			return emit(d.Text)
		})
	}
	if _, err := schema.Compile(outputSchema); err != nil {
		return nil, Invalid("output_schema_json", "%w", err)
	}
	text, err := ask(ctx, s, r, llm.Output{Name: "output", Schema: outputSchema}, func(answer *json.RawMessage) (string, error) { return string(*answer), nil })
	if err != nil {
		return nil, err
	}
	s.reply.Text, s.reply.Usage = text, s.used
	return s.reply, emit(text)
}

func decode[T any](s *schema.Schema, reply *llm.Reply) (*T, error) {
	text := extractJSON(reply.Text)
	if err := s.Validate(text); err != nil {
		return nil, err
	}
	answer := new(T)
	return answer, json.Unmarshal([]byte(text), answer)
}

// extractJSON returns the longest JSON object in a model's text. If there is none, it returns the text, and validation reports what is wrong.
func extractJSON(text string) string {
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
		if len(raw) >= len(longest) {
			longest = string(raw)
		}
		from += len(raw)
	}
	return cmp.Or(longest, strings.TrimSpace(text))
}

// maxFailures bounds the search of extractJSON in texts with many unbalanced braces.
const maxFailures = 100
