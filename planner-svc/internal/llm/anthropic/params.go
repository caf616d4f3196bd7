package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/llm/wire"
)

// hottest is the highest temperature here; other providers go to 2.
const hottest = 1

// params is a request as the wire has it.
func (m *Model) params(r *llm.Request) (anthropic.MessageNewParams, error) {
	p := anthropic.MessageNewParams{
		Model: m.cfg.Model, MaxTokens: int64(r.MaxTokens),
		StopSequences: slices.DeleteFunc(slices.Clone(r.Stop), blank), // which it refuses
	}
	if r.Temperature != nil {
		p.Temperature = param.NewOpt(min(*r.Temperature, hottest))
	}
	if r.System != "" {
		p.System = []anthropic.TextBlockParam{{Text: r.System}}
	}
	for _, message := range r.Messages {
		blocks := make([]anthropic.ContentBlockParamUnion, 0, len(message.Parts))
		for _, part := range message.Parts {
			block, err := blockOf(part)
			if err != nil {
				return p, err
			}
			if block != nil {
				blocks = append(blocks, *block)
			}
		}
		switch {
		case len(blocks) == 0: // nothing was said
		case message.Role == llm.Assistant:
			p.Messages = append(p.Messages, anthropic.NewAssistantMessage(blocks...))
		default:
			p.Messages = append(p.Messages, anthropic.NewUserMessage(blocks...))
		}
	}
	return p, nil
}

// pictures are the types that are taken.
var pictures = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// blockOf is a part as the wire has it; nil for empty text, which is refused there.
func blockOf(p llm.Part) (*anthropic.ContentBlockParamUnion, error) {
	var block anthropic.ContentBlockParamUnion
	switch p.Kind {
	case llm.Audio:
		return nil, &llm.Error{Class: llm.BadRequest, Message: "this provider takes no sound; choose another model, or send text"}
	case llm.Image:
		if !slices.Contains(pictures, p.MIME) {
			return nil, &llm.Error{Class: llm.BadRequest,
				Message: fmt.Sprintf("pictures of the type %.60q are not taken here; send one of %s", p.MIME, strings.Join(pictures, ", "))}
		}
		block = anthropic.NewImageBlockBase64(p.MIME, base64.StdEncoding.EncodeToString(p.Data))
	default:
		if blank(p.Text) {
			return nil, nil
		}
		block = anthropic.NewTextBlock(p.Text)
	}
	return &block, nil
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

// readError reads `{"type": "error", "error": {"type": …, "message": …}}`.
func readError(raw string) wire.ErrorAnswer {
	var answer struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(raw), &answer) != nil {
		return wire.ErrorAnswer{Message: raw}
	}
	return wire.ErrorAnswer{Type: answer.Error.Type, Message: answer.Error.Message}
}
