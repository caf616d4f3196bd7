package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

// event is an event of an answer; which fields it has depends on its type.
type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Model string `json:"model"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	ContentBlock struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"content_block"`
	Delta struct {
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage `json:"usage"`
}

// usage counts tokens. Absent counts are nil.
type usage struct {
	Input      *uint64 `json:"input_tokens"`
	CacheWrite *uint64 `json:"cache_creation_input_tokens"`
	CacheRead  *uint64 `json:"cache_read_input_tokens"`
	Output     *uint64 `json:"output_tokens"`
}

// decoder reads one answer.
type decoder struct {
	*wire.Answer
	byTool bool        // the reply's text is the arguments of the forced tool call
	calls  map[int]int // index in Reply.Calls by the index of the content block
	plain  uint64      // tokens of the prompt that were neither read from nor written to the cache
}

func (d *decoder) event(data []byte) error {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return &llm.Error{Class: llm.Broken, Message: "a piece of its answer is not the JSON of a message: " + err.Error(), Err: err}
	}
	switch e.Type {
	case "error":
		return wire.ReadError(data).Error()
	case "message_start":
		d.Reply.Model = e.Message.Model
		d.count(e.Message.Usage)
	case "content_block_start":
		return d.begin(e)
	case "content_block_delta":
		if err := d.Text(e.Delta.Text); err != nil {
			return err
		}
		return d.arguments(e.Index, e.Delta.PartialJSON)
	case "message_delta":
		d.count(e.Usage)
		d.Reported = e.Usage.Output != nil
		d.Reply.Stop = d.stop(e.Delta.StopReason)
	case "message_stop":
		d.Whole = true
		return wire.ErrDone
	}
	return nil
}

func (d *decoder) begin(e event) error {
	b := e.ContentBlock
	if b.Type != "tool_use" {
		return d.Text(b.Text)
	}
	if !d.byTool {
		index, err := d.Call(b.ID, b.Name)
		if err != nil {
			return err
		}
		d.calls[e.Index] = index
	}
	if whole := strings.TrimSpace(string(b.Input)); whole != "{}" && whole != "null" { // some compatible servers send it at once
		return d.arguments(e.Index, whole)
	}
	return nil
}

func (d *decoder) arguments(block int, text string) error {
	if d.byTool || text == "" {
		return d.Text(text)
	}
	index, ok := d.calls[block]
	if !ok {
		return &llm.Error{Class: llm.Broken, Message: fmt.Sprintf("its content block %d has arguments and is no tool call", block)}
	}
	return d.Arguments(index, text)
}

// count takes over token counts, which are totals. The provider counts cached tokens beside the input's.
func (d *decoder) count(u usage) {
	r := &d.Reply.Usage
	for _, c := range []struct{ from, to *uint64 }{{u.Input, &d.plain}, {u.CacheWrite, &r.CacheWrite}, {u.CacheRead, &r.CachedInput}, {u.Output, &r.Output}} {
		if c.from != nil {
			*c.to = *c.from
		}
	}
	r.Input = d.plain + r.CacheWrite + r.CachedInput
}

func (d *decoder) stop(reason string) plannerv1.StopReason {
	switch reason {
	case "max_tokens", "model_context_window_exceeded":
		return plannerv1.StopReason_STOP_REASON_MAX_TOKENS
	case "stop_sequence":
		return plannerv1.StopReason_STOP_REASON_STOP_SEQUENCE
	case "refusal":
		return plannerv1.StopReason_STOP_REASON_REFUSED
	}
	if len(d.Reply.Calls) > 0 {
		return plannerv1.StopReason_STOP_REASON_TOOL_CALLS
	}
	return plannerv1.StopReason_STOP_REASON_END
}
