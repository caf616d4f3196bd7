package runner

import (
	"bytes"
	"encoding/json"
	"strings"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

type media struct {
	Type     string `json:"type"`
	MimeType string `json:"mimeType,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
	Text     string `json:"text,omitempty"`
	Data     []byte `json:"data,omitempty"`
}

// output is a step's output (A12): the joined text, what the tool gave in structure, and what is neither.
func output(res *mcppoolv1.CallResult) string {
	message := text(res)
	if len(res.GetContent()) == 1 && res.GetContent()[0].GetText() != "" && res.GetStructuredJson() == "" && plain(message) {
		return `{"message":"` + message + `"}` // as most are
	}
	var b bytes.Buffer
	b.Grow(len(message) + len(res.GetStructuredJson()) + 64)
	b.WriteString(`{"message":`)
	writeJSON(&b, message)
	if res.GetStructuredJson() != "" {
		before := b.Len()
		b.WriteString(`,"structured":`)
		if json.Compact(&b, []byte(res.GetStructuredJson())) != nil {
			b.Truncate(before)
		}
	}
	var all []media
	for _, c := range res.GetContent() {
		if m, ok := mediaOf(c); ok {
			all = append(all, m)
		}
	}
	if len(all) > 0 {
		b.WriteString(`,"media":`)
		writeJSON(&b, all)
	}
	b.WriteByte('}')
	return valid(b.String())
}

// writeJSON writes a value, which always encodes, as JSON. Characters that matter only to HTML stay as they are.
func writeJSON(b *bytes.Buffer, v any) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) == nil {
		b.Truncate(b.Len() - 1) // the encoder ends a line
	}
}

// plain says whether a text is written in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func mediaOf(c *mcppoolv1.Content) (media, bool) {
	switch k := c.GetKind().(type) {
	case *mcppoolv1.Content_Image:
		return media{Type: "image", MimeType: k.Image.GetMimeType(), Data: k.Image.GetData()}, true
	case *mcppoolv1.Content_Audio:
		return media{Type: "audio", MimeType: k.Audio.GetMimeType(), Data: k.Audio.GetData()}, true
	case *mcppoolv1.Content_Resource:
		r := k.Resource
		return media{Type: "resource", MimeType: r.GetMimeType(), URI: r.GetUri(), Text: r.GetText(), Data: r.GetBlob()}, true
	case *mcppoolv1.Content_ResourceLink:
		r := k.ResourceLink
		return media{Type: "resource_link", MimeType: r.GetMimeType(), URI: r.GetUri(), Name: r.GetName()}, true
	}
	return media{}, false
}

func text(res *mcppoolv1.CallResult) string {
	if len(res.GetContent()) == 1 {
		return res.GetContent()[0].GetText()
	}
	var parts []string
	for _, c := range res.GetContent() {
		if t, ok := c.GetKind().(*mcppoolv1.Content_Text); ok {
			parts = append(parts, t.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// toolError is the text of a result that is marked as an error (A13).
func toolError(res *mcppoolv1.CallResult) string {
	if t := strings.TrimSpace(valid(text(res))); t != "" {
		return t
	}
	return "the tool failed without saying why"
}
