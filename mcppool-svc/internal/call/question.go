package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"
)

// maxFields is how many values one form may ask for.
const maxFields = 100

// ask implements mcp.Call.Ask: it opens a question and waits for the answer, at most InputTimeout, with the timer of the call paused. It
// returns the answer Cancel if no answer comes or the call has no call_id.
func (a *attempt) ask(ctx context.Context, q mcp.Question) (mcp.Answer, error) {
	if err := ctx.Err(); err != nil {
		return mcp.Answer{}, err
	}
	a.asked.Store(true)
	if a.number > 1 {
		q.ID = strconv.Itoa(a.number) + "." + q.ID // an earlier attempt may have used the same id
	}
	q.Message, q.Schema, q.URL = clean(q.Message), clean(q.Schema), clean(q.URL)
	check, err := checker(q)
	if err != nil {
		return mcp.Answer{}, err
	}
	if a.Unnamed {
		a.log("warning", "the server asked for input; a call without a call_id cannot be answered, so the server was told that the question was cancelled")
		return mcp.Answer{Action: mcp.Cancel}, nil
	}
	limit := a.deps.InputTimeout
	q.Expire = a.deps.Now().Add(limit)
	a.timer.pause()
	defer a.timer.resume()
	answered, err := a.call.Ask(q, check)
	if err != nil {
		return mcp.Answer{}, err
	}
	defer a.call.Close(q.ID)
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case answer := <-answered:
		if answer.Action == mcp.Accept && q.URL == "" {
			answer.Content = withDefaults(q.Schema, answer.Content)
		}
		return answer, nil
	case <-timeout.C:
		return mcp.Answer{Action: mcp.Cancel}, nil
	case <-ctx.Done():
		return mcp.Answer{}, ctx.Err()
	}
}

// checker returns the check of answers to a question, or an error if the question cannot be asked.
func checker(q mcp.Question) (func(mcp.Answer) error, error) {
	var compiled *schema.Schema
	if q.URL == "" {
		if err := checkForm(q.Schema); err != nil {
			return nil, err
		}
		var err error
		if compiled, err = schema.Compile(q.Schema); err != nil {
			return nil, fmt.Errorf("requestedSchema cannot be used: %w", err)
		}
	}
	return func(a mcp.Answer) error {
		if a.Action != mcp.Accept || compiled == nil {
			if len(a.Content) > 0 {
				return badAnswer("content_json is allowed only if the answer accepts a form")
			}
			return nil
		}
		if err := compiled.Validate(string(withDefaults(q.Schema, a.Content))); err != nil {
			return withViolations(badAnswer("the answer does not fit the form: %v", err), "answer.content_json", err)
		}
		return nil
	}, nil
}

func badAnswer(format string, args ...any) *errs.Error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
}

// form holds the parts of a requestedSchema that the pool reads. MCP requires an object of plain values, because people fill it in.
type form struct {
	Type       string `json:"type"`
	Properties map[string]struct {
		Type    string         `json:"type"`
		Default jsontext.Value `json:"default"`
	} `json:"properties"`
}

// readForm reads a form. Members match by their exact names.
func readForm(text string) (f form, err error) {
	err = jsonv2.Unmarshal([]byte(text), &f, jsontext.AllowInvalidUTF8(true))
	return f, err
}

// checkForm refuses a form that is not an object of plain values.
func checkForm(text string) error {
	f, err := readForm(text)
	switch {
	case err != nil || f.Type != "object":
		return errors.New("requestedSchema is not the schema of an object, or has properties that cannot be read")
	case len(f.Properties) > maxFields:
		return fmt.Errorf("requestedSchema has more than %d properties", maxFields)
	}
	for name, property := range f.Properties {
		switch property.Type {
		case "string", "number", "integer", "boolean", "array": // an array is a multiple choice
		default:
			return fmt.Errorf("the property %.100q of requestedSchema is not a plain value", name)
		}
	}
	return nil
}

// Answer answers a question of a user's running call. Errors are *errs.Error.
func (c *Caller) Answer(ctx context.Context, user, callID, questionID string, a mcp.Answer) error {
	if err := c.calls.Answer(user, callID, questionID, a); err != nil {
		return err
	}
	c.deps.Audit.Record(ctx, "tool_answer", slog.String("user", user), slog.String("call_id", callID), slog.String("input_id", questionID),
		slog.String("action", string(a.Action)))
	return nil
}

// withDefaults adds the defaults of a form to the content of an answer (SEP-1034): accepting a form without changing a value accepts its
// default. Content that cannot be read is returned unchanged.
func withDefaults(text string, content json.RawMessage) json.RawMessage {
	values := make(map[string]json.RawMessage)
	if len(content) > 0 {
		members, err := strictjson.MemberMap(content)
		if err != nil {
			return content
		}
		values = members
	}
	f, err := readForm(text)
	if err != nil {
		return content
	}
	added := false
	for name, property := range f.Properties {
		if _, present := values[name]; !present && !strictjson.Absent(property.Default) {
			values[name], added = json.RawMessage(property.Default), true
		}
	}
	if !added {
		return content
	}
	whole, err := json.Marshal(values)
	if err != nil {
		return content
	}
	return whole
}
