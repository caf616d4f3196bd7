package mcpserver

import (
	"encoding/json"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// jsonOf returns JSON text that stays as it is when it is encoded; null if it is empty.
func jsonOf(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

// resultOf returns the result of a call that the pool has cut.
func resultOf(r *mcppoolv1.CallResult) string {
	blocks := make([]any, 0, len(r.GetContent()))
	for _, c := range r.GetContent() {
		blocks = append(blocks, blockOf(c))
	}
	result := map[string]any{"content": blocks, "isError": r.GetIsError(), "_meta": map[string]bool{"pawl.dev/truncated": r.GetTruncated()}}
	if r.GetStructuredJson() != "" {
		result["structuredContent"] = jsonOf(r.GetStructuredJson())
	}
	return quote(result)
}

// blockOf returns a block of content.
func blockOf(c *mcppoolv1.Content) map[string]any {
	switch kind := c.GetKind().(type) {
	case *mcppoolv1.Content_Image:
		return map[string]any{"type": "image", "data": kind.Image.GetData(), "mimeType": kind.Image.GetMimeType()}
	case *mcppoolv1.Content_Audio:
		return map[string]any{"type": "audio", "data": kind.Audio.GetData(), "mimeType": kind.Audio.GetMimeType()}
	case *mcppoolv1.Content_ResourceLink:
		l := kind.ResourceLink
		return map[string]any{"type": "resource_link", "uri": l.GetUri(), "name": l.GetName(), "description": l.GetDescription(), "mimeType": l.GetMimeType()}
	case *mcppoolv1.Content_Resource:
		r := map[string]any{"uri": kind.Resource.GetUri(), "mimeType": kind.Resource.GetMimeType()}
		if blob := kind.Resource.GetBlob(); len(blob) > 0 {
			r["blob"] = blob
		} else {
			r["text"] = kind.Resource.GetText()
		}
		return map[string]any{"type": "resource", "resource": r}
	}
	return map[string]any{"type": "text", "text": c.GetText()}
}
