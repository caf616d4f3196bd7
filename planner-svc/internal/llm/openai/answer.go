package openai

import (
	"encoding/json"
	"fmt"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

// chunk is an event of an answer.
type chunk struct {
	Model   string          `json:"model"`
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content   string      `json:"content"`
			Refusal   string      `json:"refusal"`
			ToolCalls []callDelta `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     uint64 `json:"prompt_tokens"`
		CompletionTokens uint64 `json:"completion_tokens"`
		Details          struct {
			CachedTokens uint64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CacheHitTokens uint64 `json:"prompt_cache_hit_tokens"` // DeepSeek's name of cached_tokens
	} `json:"usage"`
}

type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// decoder reads one answer.
type decoder struct {
	*wire.Answer
	refused bool
	calls   map[int]int // index in Reply.Calls by the provider's index
}

func (d *decoder) event(data []byte) error {
	if string(data) == "[DONE]" {
		return wire.ErrDone
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return &llm.Error{Class: llm.Broken, Message: "a piece of its answer is not the JSON of a chat completion: " + err.Error(), Err: err}
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return wire.ReadError(data).Error()
	}
	if c.Model != "" {
		d.Reply.Model = c.Model
	}
	if u := c.Usage; u != nil {
		d.Reported = true
		d.Reply.Usage.Input, d.Reply.Usage.Output = u.PromptTokens, u.CompletionTokens
		d.Reply.Usage.CachedInput = min(max(u.Details.CachedTokens, u.CacheHitTokens), u.PromptTokens)
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		d.refused = d.refused || choice.Delta.Refusal != ""
		for _, text := range []string{choice.Delta.Content, choice.Delta.Refusal} {
			if err := d.Text(text); err != nil {
				return err
			}
		}
		for _, call := range choice.Delta.ToolCalls {
			if err := d.call(call); err != nil {
				return err
			}
		}
		if choice.FinishReason != "" {
			d.Whole = true
			d.Reply.Stop = d.stop(choice.FinishReason)
		}
	}
	return nil
}

// call handles a piece of a tool call. Some servers leave the index out, or send 0 for all calls, so a new id begins a new call too.
func (d *decoder) call(c callDelta) error {
	position := len(d.Reply.Calls)
	switch {
	case c.Index != nil:
		position = *c.Index
	case c.ID == "" && c.Function.Name == "":
		position--
	}
	index, known := d.calls[position]
	if !known || c.ID != "" && c.ID != d.Reply.Calls[index].GetId() {
		if c.Function.Name == "" {
			return &llm.Error{Class: llm.Broken, Message: fmt.Sprintf("its tool call %d has no name", len(d.Reply.Calls)+1)}
		}
		var err error
		if index, err = d.Call(c.ID, c.Function.Name); err != nil {
			return err
		}
		d.calls[position] = index
	}
	return d.Arguments(index, c.Function.Arguments)
}

func (d *decoder) stop(finish string) plannerv1.StopReason {
	switch {
	case finish == "content_filter", d.refused:
		return plannerv1.StopReason_STOP_REASON_REFUSED
	case finish == "length":
		return plannerv1.StopReason_STOP_REASON_MAX_TOKENS
	case len(d.Reply.Calls) > 0: // some servers finish with "stop" here too
		return plannerv1.StopReason_STOP_REASON_TOOL_CALLS
	}
	return plannerv1.StopReason_STOP_REASON_END
}
