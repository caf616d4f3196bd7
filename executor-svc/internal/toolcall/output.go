package toolcall

import (
	"cmp"
	"encoding/json"
	"strings"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/strictjson"
)

// Result is the result of a tool: the joined text, the structured content and the media.
type Result struct {
	Message    string          `json:"message"`
	Structured json.RawMessage `json:"structured,omitempty"`
	Media      []Media         `json:"media,omitempty"`
}

// Media is a picture, sound or resource of a result.
type Media struct {
	Type     string `json:"type"`
	MimeType string `json:"mimeType,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
	Text     string `json:"text,omitempty"`
	Data     []byte `json:"data,omitempty"`
}

// Output returns a result as JSON of a Result. Structured content that is not valid JSON is left out. The text is copied only once, because some
// results are large.
func Output(res *mcppoolv1.CallResult) string {
	message, structured := Text(res), ValidUTF8(res.GetStructuredJson())
	if strictjson.Check(structured, strictjson.Rules{}) != nil {
		structured = ""
	}
	var all []Media
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
		b.WriteString(ValidUTF8(raw))
	}
	b.WriteByte('}')
	return b.String()
}

func mediaOf(c *mcppoolv1.Content) (Media, bool) {
	switch k := c.GetKind().(type) {
	case *mcppoolv1.Content_Image:
		return Media{Type: "image", MimeType: k.Image.GetMimeType(), Data: k.Image.GetData()}, true
	case *mcppoolv1.Content_Audio:
		return Media{Type: "audio", MimeType: k.Audio.GetMimeType(), Data: k.Audio.GetData()}, true
	case *mcppoolv1.Content_Resource:
		r := k.Resource
		return Media{Type: "resource", MimeType: r.GetMimeType(), URI: r.GetUri(), Text: r.GetText(), Data: r.GetBlob()}, true
	case *mcppoolv1.Content_ResourceLink:
		r := k.ResourceLink
		return Media{Type: "resource_link", MimeType: r.GetMimeType(), URI: r.GetUri(), Name: r.GetName()}, true
	}
	return Media{}, false
}

// Text returns the texts of a result, joined.
func Text(res *mcppoolv1.CallResult) string {
	var parts []string
	for _, c := range res.GetContent() {
		if t, ok := c.GetKind().(*mcppoolv1.Content_Text); ok {
			parts = append(parts, t.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// ErrorText returns the message of a result that is an error.
func ErrorText(res *mcppoolv1.CallResult) string {
	return cmp.Or(strings.TrimSpace(ValidUTF8(Text(res))), "the tool failed without a message")
}

// ValidUTF8 replaces what is not UTF-8, which messages of gRPC cannot hold.
func ValidUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
