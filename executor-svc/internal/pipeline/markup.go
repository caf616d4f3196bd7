package pipeline

import (
	"bytes"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"
)

// The markup of tool calls, for models that cannot call tools.
const (
	openCalls, closeCalls         = "<function_calls>", "</function_calls>"
	openInvoke, closeInvoke       = `<invoke name="`, "</invoke>"
	openParameter, closeParameter = `<parameter name="`, "</parameter>"
	openResults, closeResults     = "<function_results>", "</function_results>"
)

// describedTools begins the description of tools in the system text.
const describedTools = "# Tools that you can call"

// syntax explains the markup to the model.
const syntax = `To call tools, write this and then stop; you get the results in the next message. One block may hold several calls, which run at the same time. Write a value that is not
a text as JSON.

<function_calls>
<invoke name="TOOL">
<parameter name="PARAMETER">VALUE</parameter>
</invoke>
</function_calls>`

// describeTools returns the description of tools for a model that cannot call tools.
func describeTools(tools []*plannerv1.ModelTool) string {
	var b strings.Builder
	b.WriteString(describedTools + "\n")
	for _, t := range tools {
		b.WriteString("\n## " + t.GetName() + "\n\n" + t.GetDescription() + "\n\nJSON Schema of its parameters: " + strictjson.Compact(t.GetInputSchemaJson()) + "\n")
	}
	b.WriteString("\n" + syntax)
	return b.String()
}

// asMarkup turns tool calls and results of a request into text.
func asMarkup(req *plannerv1.GenerateRequest) {
	switch {
	case len(req.GetTools()) == 0: // the conversation may hold calls of earlier requests
	case req.GetToolChoice() == plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_REQUIRED && len(req.GetTools()) == 1:
		req.System += "\n\nNow you must call the tool " + req.GetTools()[0].GetName() + "."
	case req.GetToolChoice() == plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_REQUIRED:
		req.System += "\n\nNow you must call a tool."
	case req.GetToolChoice() == plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE:
		req.System += "\n\nNow you must not call tools."
	}
	req.Tools, req.ToolChoice = nil, plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_UNSPECIFIED
	names := map[string]string{}
	messages := make([]*plannerv1.ModelMessage, 0, len(req.GetMessages()))
	for _, m := range req.GetMessages() {
		out := &plannerv1.ModelMessage{Role: m.GetRole()}
		var calls, results strings.Builder
		for _, p := range m.GetParts() {
			switch part := p.GetPart().(type) {
			case *plannerv1.ModelPart_ToolCall:
				names[part.ToolCall.GetId()] = part.ToolCall.GetName()
				writeCall(&calls, part.ToolCall)
			case *plannerv1.ModelPart_ToolResult:
				results.WriteString("<result name=\"" + names[part.ToolResult.GetCallId()] + "\">" + part.ToolResult.GetText() + "</result>\n")
			default:
				out.Parts = append(out.Parts, p)
			}
		}
		if calls.Len() > 0 {
			out.Parts = append(out.Parts, textPart(openCalls+"\n"+calls.String()+closeCalls))
		}
		if results.Len() > 0 {
			out.Parts = append([]*plannerv1.ModelPart{textPart(openResults + "\n" + results.String() + closeResults)}, out.Parts...)
		}
		messages = append(messages, out)
	}
	req.Messages = messages
}

func textPart(text string) *plannerv1.ModelPart {
	return &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Text{Text: text}}
}

func writeCall(b *strings.Builder, c *plannerv1.ModelToolCall) {
	b.WriteString(openInvoke + c.GetName() + "\">\n")
	for name, value := range strictjson.Members(c.GetInputJson()) {
		if strictjson.Kind(value) == "string" {
			value = strictjson.Content(value)
		}
		b.WriteString(openParameter + name + "\">" + value + closeParameter + "\n")
	}
	b.WriteString(closeInvoke + "\n")
}

// hider removes the markup of calls from a text that arrives in pieces.
type hider struct {
	// held is the end of the text that may be the beginning of a tag, or the block that has begun.
	held    []byte
	inBlock bool
}

// write returns what of the text so far can be shown.
func (h *hider) write(text string) string {
	var shown strings.Builder
	from := max(len(h.held)-len(closeCalls)+1, len(openCalls)) // the tag that closes the block is not in what came before
	for h.held = append(h.held, text...); ; {
		if !h.inBlock {
			begin := bytes.Index(h.held, []byte(openCalls))
			if h.inBlock = begin >= 0; !h.inBlock {
				begin = len(h.held) - heldBack(h.held, openCalls)
			}
			shown.Write(h.held[:begin])
			h.held, from = h.held[begin:], len(openCalls)
		}
		if !h.inBlock {
			return shown.String()
		}
		end := bytes.Index(h.held[from:], []byte(closeCalls))
		if end < 0 {
			return shown.String()
		}
		h.held, h.inBlock = h.held[from+end+len(closeCalls):], false
	}
}

// end returns what is left to show: all that is held, unless it holds calls.
func (h *hider) end() string {
	if len(parseCalls(string(h.held))) > 0 {
		return ""
	}
	return string(h.held)
}

// heldBack returns how many bytes at the end of a text may be the beginning of a tag.
func heldBack(text []byte, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if string(text[len(text)-n:]) == tag[:n] {
			return n
		}
	}
	return 0
}

// markupCall is a call that was written as markup.
type markupCall struct {
	name       string
	parameters []parameter
}

type parameter struct{ name, value string }

// maxCalls is how many calls of one reply are made.
const maxCalls = 128

// parseCalls returns the calls in all blocks of a text, one more than maxCalls at most. A block or a call that is not closed at the end of the text counts up to there.
func parseCalls(text string) (calls []markupCall) {
	for {
		_, rest, found := strings.Cut(text, openCalls)
		if !found || len(calls) > maxCalls {
			return calls
		}
		var block string
		block, text, _ = strings.Cut(rest, closeCalls)
		calls = append(calls, parseBlock(block)...)
	}
}

func parseBlock(block string) (calls []markupCall) {
	for {
		_, rest, found := strings.Cut(block, openInvoke)
		name, rest, closed := strings.Cut(rest, `">`)
		if !found || !closed || name == "" || len(calls) > maxCalls {
			return calls
		}
		c := markupCall{name: name}
		c.parameters, block = parseParameters(rest)
		calls = append(calls, c)
	}
}

// parseParameters returns the parameters of a call, and what follows the call.
func parseParameters(text string) (all []parameter, rest string) {
	for {
		tag := strings.IndexByte(text, '<')
		if tag < 0 {
			return all, ""
		}
		text = text[tag:]
		if rest, closed := strings.CutPrefix(text, closeInvoke); closed {
			return all, rest
		}
		begun, opened := strings.CutPrefix(text, openParameter)
		if !opened {
			text = text[1:]
			continue
		}
		name, value, closed := strings.Cut(begun, `">`)
		if !closed {
			return all, ""
		}
		value, text, _ = strings.Cut(value, closeParameter)
		all = append(all, parameter{name, value})
	}
}

// input returns the parameters as a JSON object. A value is JSON if the tool's schema takes no text there and the JSON is of a type that it takes, else a text.
func (c *markupCall) input(inputSchema string) string {
	properties := map[string]schema.Property{}
	if compiled, err := schema.Compile(inputSchema); err == nil {
		for _, p := range compiled.Properties() {
			properties[p.Name] = p
		}
	}
	in := &strictjson.Object{}
	for _, p := range c.parameters {
		in.Set(p.name, coerce(properties, p))
	}
	return in.String()
}

func coerce(properties map[string]schema.Property, p parameter) string {
	property, known := properties[p.name]
	value := strings.TrimSpace(p.value)
	if !known || property.Type != "" && property.Takes("string") || strictjson.Check(value, strictjson.Rules{}) != nil {
		return strictjson.Quote(p.value)
	}
	kind := strictjson.Kind(value)
	if property.Takes(kind) || kind == "number" && property.Takes("integer") {
		return strictjson.Compact(value)
	}
	return strictjson.Quote(p.value)
}
