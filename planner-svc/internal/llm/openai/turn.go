package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

// turnOf is a message as the wire has it. Plain text goes as plain text: not all compatible servers read lists.
func turnOf(m llm.Message) (openai.ChatCompletionMessageParamUnion, error) {
	if text, plain := plainText(m.Parts); plain {
		if m.Role == llm.Assistant {
			return openai.AssistantMessage(text), nil
		}
		return openai.UserMessage(text), nil
	}
	if m.Role == llm.Assistant {
		return openai.ChatCompletionMessageParamUnion{}, &llm.Error{Class: llm.BadRequest,
			Message: "a message of the assistant holds a picture or sound, which this provider takes from users alone"}
	}
	parts := make([]openai.ChatCompletionContentPartUnionParam, 0, len(m.Parts))
	for _, p := range m.Parts {
		part, err := partOf(p)
		if err != nil {
			return openai.ChatCompletionMessageParamUnion{}, err
		}
		parts = append(parts, part)
	}
	return openai.UserMessage(parts), nil
}

func plainText(parts []llm.Part) (string, bool) {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Kind != llm.Text {
			return "", false
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n"), true
}

// sounds are the formats that chat completions know, by MIME type.
var sounds = map[string]string{
	"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3",
}

func partOf(p llm.Part) (openai.ChatCompletionContentPartUnionParam, error) {
	data := base64.StdEncoding.EncodeToString(p.Data)
	switch p.Kind {
	case llm.Image:
		return openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:" + p.MIME + ";base64," + data}), nil
	case llm.Audio:
		format, ok := sounds[p.MIME]
		if !ok {
			return openai.ChatCompletionContentPartUnionParam{}, &llm.Error{Class: llm.BadRequest,
				Message: fmt.Sprintf("sound of the type %.60q is not taken here; send audio/wav or audio/mpeg", p.MIME)}
		}
		return openai.InputAudioContentPart(openai.ChatCompletionContentPartInputAudioInputAudioParam{Data: data, Format: format}), nil
	default:
		return openai.TextContentPart(p.Text), nil
	}
}

// readInside reads an error in the middle of a stream: an object, or whatever a compatible server thought of.
func readInside(data []byte) wire.ErrorAnswer {
	var event struct {
		Error json.RawMessage `json:"error"`
	}
	var said struct {
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(data, &event) != nil || json.Unmarshal(event.Error, &said) != nil {
		return wire.ErrorAnswer{Message: string(event.Error)}
	}
	return wire.ErrorAnswer{Type: said.Type, Code: strings.Trim(string(said.Code), `"`), Message: said.Message}
}
