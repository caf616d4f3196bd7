package mcp

import (
	"encoding/json"
	"math"

	"pawl.dev/services/strictjson"
)

// What a request for a model may hold.
const (
	maxSample      = 8 << 20 // bytes
	maxSampleTurns = 200
	maxSampleParts = 50
	maxStops       = 16
	maxHints       = 20
	maxSampleWord  = 200 // of a stop sequence, a hint
	mostTokens     = 1_000_000
	hottest        = 2
)

// sampleParams are the parameters of sampling/createMessage.
type sampleParams struct {
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	SystemPrompt     string   `json:"systemPrompt"`
	MaxTokens        float64  `json:"maxTokens"`
	Temperature      *float64 `json:"temperature"`
	StopSequences    []string `json:"stopSequences"`
	ModelPreferences struct {
		Hints []struct {
			Name string `json:"name"`
		} `json:"hints"`
	} `json:"modelPreferences"`
}

// readSample reads the parameters of sampling/createMessage. The error is for the server. includeContext is left out: what this pool
// knows of other servers is not for this one.
func readSample(params map[string]json.RawMessage) (Sample, error) {
	for _, key := range []string{"tools", "toolChoice"} {
		if !strictjson.Absent(params[key]) {
			return Sample{}, invalidSample("%s in sampling is not offered here (the capability sampling.tools is not announced); ask without", key)
		}
	}
	raw, err := json.Marshal(params)
	if err != nil || len(raw) > maxSample {
		return Sample{}, invalidSample("the request cannot be read, or has more than %d MiB", maxSample>>20)
	}
	var p sampleParams
	if err := json.Unmarshal(raw, &p); err != nil {
		return Sample{}, invalidSample("the parameters are not those of sampling/createMessage")
	}
	if err := p.check(); err != nil {
		return Sample{}, err
	}
	s := Sample{System: p.SystemPrompt, MaxTokens: int(min(p.MaxTokens, mostTokens)), Temperature: p.Temperature, Stop: p.StopSequences}
	for _, h := range p.ModelPreferences.Hints {
		if h.Name != "" {
			s.Hints = append(s.Hints, h.Name)
		}
	}
	for _, m := range p.Messages {
		parts, err := readParts(m.Content)
		if err != nil {
			return s, err
		}
		s.Messages = append(s.Messages, SampleMessage{Assistant: m.Role == "assistant", Parts: parts})
	}
	return s, nil
}

func (p *sampleParams) check() error {
	switch {
	case len(p.Messages) == 0 || len(p.Messages) > maxSampleTurns:
		return invalidSample("messages must be 1 to %d", maxSampleTurns)
	case math.IsNaN(p.MaxTokens) || p.MaxTokens < 0:
		return invalidSample("maxTokens must be at least 1")
	case p.Temperature != nil && (*p.Temperature < 0 || *p.Temperature > hottest):
		return invalidSample("temperature must be between 0 and %d", hottest)
	}
	for _, m := range p.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return invalidSample("the role %.40q of a message is neither user nor assistant", m.Role)
		}
	}
	return p.checkWords()
}

// checkWords looks at what stops the model, and at the names of models.
func (p *sampleParams) checkWords() error {
	switch {
	case len(p.StopSequences) > maxStops:
		return invalidSample("stopSequences are more than %d", maxStops)
	case len(p.ModelPreferences.Hints) > maxHints:
		return invalidSample("the hints of modelPreferences are more than %d", maxHints)
	}
	for _, stop := range p.StopSequences {
		if stop == "" || len(stop) > maxSampleWord {
			return invalidSample("one of stopSequences is empty, or longer than %d", maxSampleWord)
		}
	}
	for _, h := range p.ModelPreferences.Hints {
		if len(h.Name) > maxSampleWord {
			return invalidSample("one of the hints of modelPreferences is longer than %d", maxSampleWord)
		}
	}
	return nil
}

// samplePart is a piece of a message's content.
type samplePart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     []byte `json:"data"` // base64
	MimeType string `json:"mimeType"`
}

// readParts reads a message's content: one piece, or since 2025-11-25 a list of them.
func readParts(raw json.RawMessage) ([]SamplePart, error) {
	var list []samplePart
	if json.Unmarshal(raw, &list) != nil {
		list = make([]samplePart, 1)
		if json.Unmarshal(raw, &list[0]) != nil {
			return nil, invalidSample("the content of a message cannot be read")
		}
	}
	if len(list) == 0 || len(list) > maxSampleParts {
		return nil, invalidSample("the content of a message must have 1 to %d pieces", maxSampleParts)
	}
	parts := make([]SamplePart, 0, len(list))
	for _, p := range list {
		switch p.Type {
		case "text":
			parts = append(parts, SamplePart{Kind: p.Type, Text: p.Text})
		case "image", "audio":
			if len(p.Data) == 0 || p.MimeType == "" || len(p.MimeType) > 100 {
				return nil, invalidSample("an %s without data, or without a mimeType", p.Type)
			}
			parts = append(parts, SamplePart{Kind: p.Type, MIME: p.MimeType, Data: p.Data})
		default:
			return nil, invalidSample("content of the type %.40q is not taken in sampling; send text, image or audio", p.Type)
		}
	}
	return parts, nil
}

func invalidSample(format string, args ...any) error {
	return SampleErrorf(SampleInvalid, format, args...)
}
