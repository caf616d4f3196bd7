package llm

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

const openAIURL = "https://api.openai.com/v1"

// chatCompletions is OpenAI's format, which many providers and programs offer at their own address: vLLM, Ollama, DeepSeek, Qwen, Gemini's
// compatible endpoint and others.
var chatCompletions = format{
	url:       func(base string) string { return strings.TrimRight(cmp.Or(base, openAIURL), "/") + "/chat/completions" },
	keyHeader: "Authorization",
	keyPrefix: "Bearer ",
	encode:    encodeChat,
	decode:    decodeChat,
}

type chatRequest struct {
	Model               string   `json:"model"`
	Messages            []object `json:"messages"`
	Tools               []object `json:"tools,omitempty"`
	ToolChoice          string   `json:"tool_choice,omitempty"`
	ResponseFormat      object   `json:"response_format,omitempty"`
	MaxTokens           int      `json:"max_tokens,omitempty"`
	MaxCompletionTokens int      `json:"max_completion_tokens,omitempty"`
	Temperature         *float64 `json:"temperature,omitempty"`
	Stop                []string `json:"stop,omitempty"`
	PromptCacheKey      string   `json:"prompt_cache_key,omitempty"`
	Stream              bool     `json:"stream"`
	StreamOptions       object   `json:"stream_options"`
}

// maxDescription is how many characters a tool's description may have. A longer description fails the whole request.
const maxDescription = 1024

// encodeChat returns a request in the format of chat completions.
func encodeChat(c *Config, r *Request) (any, error) {
	q := &chatRequest{Model: c.Info.ProviderModel, Temperature: r.Temperature, Stop: r.Stop, Stream: true, StreamOptions: object{"include_usage": true}}
	// OpenAI's newer models reject max_tokens, and many compatible servers do not know max_completion_tokens.
	if u, err := url.Parse(cmp.Or(c.BaseURL, openAIURL)); err == nil && u.Hostname() == "api.openai.com" {
		q.MaxCompletionTokens, q.PromptCacheKey = r.MaxTokens, r.CacheKey
	} else {
		q.MaxTokens = r.MaxTokens
	}
	if r.System != "" {
		q.Messages = append(q.Messages, object{"role": "system", "content": r.System})
	}
	for _, m := range r.Messages {
		messages, err := chatMessages(m)
		if err != nil {
			return nil, err
		}
		q.Messages = append(q.Messages, messages...)
	}
	if o := r.Output; o != nil {
		schema, strict, err := openAISchema(o.Name, o.Schema, true)
		if err != nil {
			return nil, err
		}
		q.ResponseFormat = object{"type": "json_schema", "json_schema": object{"name": o.Name, "schema": schema, "strict": strict}}
	}
	for _, t := range r.Tools {
		schema, _, err := openAISchema(t.GetName(), t.GetInputSchemaJson(), false)
		if err != nil {
			return nil, err
		}
		description := t.GetDescription()
		if runes := []rune(description); len(runes) > maxDescription {
			description = string(runes[:maxDescription-1]) + "…"
		}
		q.Tools = append(q.Tools, object{"type": "function", "function": object{"name": t.GetName(), "description": description, "parameters": schema}})
	}
	if len(r.Tools) > 0 {
		q.ToolChoice = map[plannerv1.ModelToolChoice]string{
			plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE: "none", plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_REQUIRED: "required",
		}[r.ToolChoice]
	}
	return q, nil
}

// chatMessages returns a message in the format of chat completions: each tool result is a message of its own, before the other parts.
func chatMessages(m *plannerv1.ModelMessage) ([]object, error) {
	var out, parts, calls []object
	var texts []string
	for _, p := range m.GetParts() {
		switch part := p.GetPart().(type) {
		case *plannerv1.ModelPart_ToolResult:
			out = append(out, object{"role": "tool", "tool_call_id": part.ToolResult.GetCallId(), "content": part.ToolResult.GetText()})
		case *plannerv1.ModelPart_ToolCall:
			c := part.ToolCall
			calls = append(calls, object{"id": c.GetId(), "type": "function", "function": object{"name": c.GetName(), "arguments": c.GetInputJson()}})
		case *plannerv1.ModelPart_Image:
			data := base64.StdEncoding.EncodeToString(part.Image.GetData())
			parts = append(parts, object{"type": "image_url", "image_url": object{"url": "data:" + part.Image.GetMimeType() + ";base64," + data}})
		case *plannerv1.ModelPart_Audio:
			format := audioFormats[part.Audio.GetMimeType()]
			if format == "" {
				return nil, errorf(BadRequest, "this provider does not accept sound of the type %.60q; send audio/wav or audio/mpeg", part.Audio.GetMimeType())
			}
			data := base64.StdEncoding.EncodeToString(part.Audio.GetData())
			parts = append(parts, object{"type": "input_audio", "input_audio": object{"data": data, "format": format}})
		default:
			texts = append(texts, p.GetText())
			parts = append(parts, object{"type": "text", "text": p.GetText()})
		}
	}
	message := object{"role": roles[m.GetRole()]}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	switch isText := len(texts) == len(parts); {
	case !isText && m.GetRole() == plannerv1.ModelRole_MODEL_ROLE_ASSISTANT:
		return nil, errorf(BadRequest, "a message of the assistant holds a picture or sound, which this provider accepts only from users")
	case !isText:
		message["content"] = parts
	case len(parts) > 0:
		message["content"] = strings.Join(texts, "\n") // not all compatible servers read lists
	case len(calls) == 0:
		return out, nil
	}
	return append(out, message), nil
}

// audioFormats maps MIME types to the format names of chat completions.
var audioFormats = map[string]string{
	"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3",
}

// chatChunk is an event of an answer.
type chatChunk struct {
	Model   string          `json:"model"`
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content   string `json:"content"`
			Refusal   string `json:"refusal"`
			ToolCalls []struct {
				Index    *int   `json:"index"`
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     uint64 `json:"prompt_tokens"`
		CompletionTokens uint64 `json:"completion_tokens"`
		Details          struct {
			CachedTokens uint64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CacheHitTokens uint64 `json:"prompt_cache_hit_tokens"` // DeepSeek's name for cached_tokens
	} `json:"usage"`
}

func decodeChat(a *answer, data []byte) error {
	if string(data) == "[DONE]" {
		return nil
	}
	var c chatChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return errorf(Broken, "a piece of its answer is not the JSON of a chat completion: %v", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return providerError(data, 0, nil)
	}
	a.reply.Model = cmp.Or(c.Model, a.reply.Model)
	if u := c.Usage; u != nil {
		a.reported = true
		a.reply.Usage.Input, a.reply.Usage.Output = u.PromptTokens, u.CompletionTokens
		a.reply.Usage.CachedInput = min(max(u.Details.CachedTokens, u.CacheHitTokens), u.PromptTokens)
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		a.refused = a.refused || choice.Delta.Refusal != ""
		if err := a.addText(choice.Delta.Content + choice.Delta.Refusal); err != nil {
			return err
		}
		for _, call := range choice.Delta.ToolCalls {
			at := len(a.reply.Calls) // some servers leave the index out
			if call.Index != nil {
				at = *call.Index
			} else if call.ID == "" && call.Function.Name == "" {
				at--
			}
			if err := a.addCall(at, call.ID, call.Function.Name, call.Function.Arguments); err != nil {
				return err
			}
		}
		if choice.FinishReason != "" {
			a.stop(chatStops[choice.FinishReason])
		}
	}
	return nil
}

// chatStops maps the provider's stop reasons. answer.stop derives those that are not listed, because some servers finish calls with "stop".
var chatStops = map[string]plannerv1.StopReason{
	"content_filter": plannerv1.StopReason_STOP_REASON_REFUSED, "length": plannerv1.StopReason_STOP_REASON_MAX_TOKENS,
}
