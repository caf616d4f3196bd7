package mcppool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"
)

// Func is a tool that is a Go function of the program that embeds the pool. The pool calls it without MCP messages; otherwise Func is like
// any tool.
type Func struct {
	Name, Title, Description string
	// Input is the JSON Schema of the arguments, which are an object; nil: any object. Output is the JSON Schema of Result.Structured; nil:
	// none.
	Input, Output json.RawMessage
	// ReadOnly: the tool changes nothing. Additive: it adds data and changes or deletes none; without ReadOnly and Additive it counts as
	// destructive. Idempotent: a repeated call has no further effect.
	ReadOnly, Additive, Idempotent bool
	// Call runs the tool. Calls run concurrently, each in its own goroutine, with arguments that fit Input. An error becomes a result with
	// isError, which the model reads. A panic fails the call and is logged. When ctx ends, Call should return soon: the pool
	// waits for 2 s after a cancellation, and not at all after a deadline.
	Call func(ctx context.Context, arguments json.RawMessage) (Result, error)
}

// Result is the result of a function, at most Config.MaxMessageBytes in all.
type Result struct {
	Text       string          // the first block; none if empty
	Content    []Content       // further blocks
	Structured json.RawMessage // JSON; may be nil
	Failed     bool            // the tool failed, and the content says why
}

// Content is a block of a result: Text, or Data with a MIME type such as image/png or audio/wav.
type Content struct {
	Text     string
	MIMEType string
	Data     []byte
}

// Progress reports the progress of a call to its followers. ctx is that of Func.Call; total is 0 if unknown.
func Progress(ctx context.Context, done, total float64, message string) {
	mcp.Notify(ctx, mcp.Notification{Progress: &mcp.Progress{Done: done, Total: total, Message: mcp.Cut(message)}})
}

// Log sends a log message to the followers of a call. ctx is that of Func.Call; level is one of MCP's: debug, info, warning, error ….
func Log(ctx context.Context, level, message string) {
	data := strictjson.Quote(mcp.Cut(message))
	mcp.Notify(ctx, mcp.Notification{Log: &mcp.Log{Level: level, Data: data}})
}

// anyObject is the default schema of arguments.
const anyObject = `{"type":"object"}`

// definition is the definition of a Func in tools/list.
type definition struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	Annotations annotations     `json:"annotations"`
}

type annotations struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
}

// tool returns the function in the form of package mcp. The catalog checks its definition when tools are listed.
func (f Func) tool() (mcp.Function, error) {
	if f.Name == "" || f.Call == nil {
		return mcp.Function{}, errors.New("it needs a Name and a Call")
	}
	if len(f.Input) == 0 {
		f.Input = json.RawMessage(anyObject)
	}
	for what, text := range map[string]json.RawMessage{"input": f.Input, "output": f.Output} {
		if _, err := schema.Compile(string(text)); err != nil {
			return mcp.Function{}, fmt.Errorf("its %s schema: %w", what, err)
		}
	}
	raw, err := json.Marshal(definition{
		Name: f.Name, Title: f.Title, Description: f.Description, Input: f.Input, Output: f.Output,
		Annotations: annotations{ReadOnly: f.ReadOnly, Destructive: !f.ReadOnly && !f.Additive, Idempotent: f.Idempotent},
	})
	if err != nil {
		return mcp.Function{}, err
	}
	return mcp.Function{Name: f.Name, Definition: raw, Call: f.call}, nil
}

func (f Func) call(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	result, err := f.Call(ctx, arguments)
	switch {
	case err == nil:
		return result.encode()
	case ctx.Err() != nil:
		return nil, err // the caller gave up
	}
	return Result{Text: err.Error(), Failed: true}.encode()
}

// block is a block of a result in MCP's form.
type block struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	MIMEType string  `json:"mimeType,omitempty"`
	Data     []byte  `json:"data,omitempty"`
}

// encode returns the result in the form of tools/call.
func (r Result) encode() (json.RawMessage, error) {
	blocks := make([]block, 0, len(r.Content)+1)
	if r.Text != "" {
		blocks = append(blocks, block{Type: "text", Text: &r.Text})
	}
	for _, c := range r.Content {
		kind, _, _ := strings.Cut(c.MIMEType, "/")
		switch kind {
		case "":
			blocks = append(blocks, block{Type: "text", Text: &c.Text})
		case "image", "audio":
			blocks = append(blocks, block{Type: kind, MIMEType: c.MIMEType, Data: c.Data})
		default:
			return nil, fmt.Errorf("the tool ran, but returned data of the type %.100q, which is neither an image nor audio", c.MIMEType)
		}
	}
	if len(r.Structured) > 0 {
		if err := strictjson.Check(r.Structured, strictjson.Wire); err != nil {
			return nil, fmt.Errorf("the tool ran, but its structured result cannot be used: %w", err)
		}
	}
	text, err := strictjson.Marshal(struct {
		Content    []block         `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		Failed     bool            `json:"isError,omitempty"`
	}{blocks, r.Structured, r.Failed})
	return json.RawMessage(text), err
}
