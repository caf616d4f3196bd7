package runner

import (
	"encoding/json"
	"strings"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/strictjson"
)

// stepOutput is a step's output: the joined text, the structured content and the media.
type stepOutput struct {
	Message    string          `json:"message"`
	Structured json.RawMessage `json:"structured,omitempty"`
	Media      []media         `json:"media,omitempty"`
}

type media struct {
	Type     string `json:"type"`
	MimeType string `json:"mimeType,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
	Text     string `json:"text,omitempty"`
	Data     []byte `json:"data,omitempty"`
}

// output returns a result as JSON of a stepOutput. Structured content that is not valid JSON is left out. The text is copied only once, because some
// results are large.
func output(res *mcppoolv1.CallResult) string {
	message, structured := text(res), validUTF8(res.GetStructuredJson())
	if strictjson.Check(structured, strictjson.Rules{}) != nil {
		structured = ""
	}
	var all []media
	for _, c := range res.GetContent() {
		if m, ok := mediaOf(c); ok {
			all = append(all, m)
		}
	}
	var b strings.Builder
	b.Grow(strictjson.QuotedSize(message) + len(structured) + len(`{"message":,"structured":}`))
	b.WriteString(`{"message":`)
	strictjson.WriteQuoted(&b, message)
	if structured != "" {
		b.WriteString(`,"structured":`)
		b.WriteString(strictjson.Compact(structured))
	}
	if len(all) > 0 {
		raw, _ := strictjson.Marshal(all) // text and bytes always encode
		b.WriteString(`,"media":`)
		b.WriteString(validUTF8(raw))
	}
	b.WriteByte('}')
	return b.String()
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
	var parts []string
	for _, c := range res.GetContent() {
		if t, ok := c.GetKind().(*mcppoolv1.Content_Text); ok {
			parts = append(parts, t.Text)
		}
	}
	return strings.Join(parts, "\n")
}
