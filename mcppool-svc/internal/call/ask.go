package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"
)

// maxFields is how many values one form may ask for.
const maxFields = 100

// ask implements mcp.Call.Ask. The call's time stands still meanwhile; after InputTimeout nobody answered.
func (t *try) ask(ctx context.Context, q mcp.Question) (mcp.Answer, error) {
	if err := ctx.Err(); err != nil {
		return mcp.Answer{}, err
	}
	t.f.asked.Store(true)
	if t.n > 1 {
		q.ID = strconv.Itoa(t.n) + "." + q.ID // the first try may have asked the same
	}
	q.Message, q.Schema, q.URL = clean(q.Message), clean(q.Schema), clean(q.URL)
	check, err := checker(q)
	if err != nil {
		return mcp.Answer{}, err
	}
	if t.r.Unnamed {
		t.call.Notify(mcp.Notification{Log: &mcp.Log{Level: "warning", Logger: "pawl",
			Data: `"the server asked for input; nobody can answer during a call without a call_id, so it was told that nobody did"`}})
		return mcp.Answer{Action: mcp.Cancel}, nil
	}
	limit := t.deps.InputTimeout
	q.Expire = t.deps.Now().Add(limit)
	t.watch.pause()
	defer t.watch.resume()
	answered, err := t.call.Ask(q, check)
	if err != nil {
		return mcp.Answer{}, err
	}
	defer t.call.Close(q.ID)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case answer := <-answered:
		if answer.Action == mcp.Accept && q.URL == "" {
			answer.Content = suggested(q.Schema, answer.Content)
		}
		return answer, nil
	case <-timer.C:
		return mcp.Answer{Action: mcp.Cancel}, nil
	case <-ctx.Done():
		return mcp.Answer{}, ctx.Err()
	}
}

// checker makes the check of answers to a question. Its own error is why the question cannot be asked.
func checker(q mcp.Question) (func(mcp.Answer) error, error) {
	var form *schema.Schema
	if q.URL == "" {
		if err := flat(q.Schema); err != nil {
			return nil, err
		}
		compiled, err := schema.Compile(q.Schema)
		if err != nil {
			return nil, fmt.Errorf("requestedSchema cannot be used: %w", err)
		}
		form = compiled
	}
	return func(a mcp.Answer) error {
		if a.Action != mcp.Accept || form == nil {
			if len(a.Content) > 0 {
				return badAnswer("content_json goes only with the acceptance of a form")
			}
			return nil
		}
		return fits(form, suggested(q.Schema, a.Content))
	}, nil
}

// fits compares an answer with the form.
func fits(form *schema.Schema, content json.RawMessage) error {
	err := form.Validate(string(content))
	if err == nil {
		return nil
	}
	e := badAnswer("the answer does not fit what is asked for: %v", err)
	var invalid *schema.Invalid
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			e = e.WithViolation("answer.content_json"+p.Pointer, p.Message)
		}
	}
	return e
}

func badAnswer(format string, args ...any) *errs.Error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
}

// flat refuses a form that is not an object of plain values, as MCP has it: people are to fill it in.
func flat(text string) error {
	fields, err := strictjson.MemberMap(json.RawMessage(text))
	if err != nil || !json.Valid([]byte(text)) || plain(fields["type"]) != "object" {
		return errors.New("requestedSchema is not that of an object")
	}
	if strictjson.Absent(fields["properties"]) {
		return nil
	}
	properties, err := strictjson.MemberMap(fields["properties"])
	if err != nil || len(properties) > maxFields {
		return fmt.Errorf("requestedSchema has no properties that can be read, or more than %d", maxFields)
	}
	for name, raw := range properties {
		property, err := strictjson.MemberMap(raw)
		if err != nil {
			return fmt.Errorf("the property %.100q of requestedSchema cannot be read", name)
		}
		switch plain(property["type"]) {
		case "string", "number", "integer", "boolean", "array": // arrays are choices of several
		default:
			return fmt.Errorf("the property %.100q of requestedSchema is not a plain value", name)
		}
	}
	return nil
}

// plain is a JSON string's text; empty where it is none.
func plain(raw json.RawMessage) string {
	var s string
	if strictjson.Absent(raw) || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// Answer gives an answer to a question of a user's running call. Errors are *errs.Error.
func (c *Caller) Answer(ctx context.Context, user, callID, questionID string, a mcp.Answer) error {
	if err := c.ledger.Answer(user, callID, questionID, a); err != nil {
		return err
	}
	c.audit(ctx, "tool_answer", slog.String("user", user), slog.String("call_id", callID), slog.String("input_id", questionID),
		slog.String("action", string(a.Action)))
	return nil
}
