package call

import (
	"fmt"
	"strings"
	"unicode/utf8"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// maxBrief is how much of an address a message carries.
const maxBrief = 256

// shorten cuts a result to the limit: the tool ran, and part of its result is better than none. Text is cut; structured content, images,
// sounds and bytes, which have no meaning in part, are left out as a whole. A note, which is not counted, takes their place.
//
// Structured content also comes as text (MCP 2025-06-18): models read the text, programs the structure. If only one fits, the text stays
// if it fits whole; otherwise the structured content does.
func shorten(result *mcppoolv1.CallResult, limit int) {
	s := &shortener{left: limit, limit: limit}
	var blocks []*mcppoolv1.Content
	n, text := len(result.StructuredJson), contentSize(result.Content)
	if n > limit || text <= limit && n+text > limit {
		result.StructuredJson = ""
		blocks = append(blocks, s.instead("the structured content", n))
	} else {
		s.left -= n
	}
	for i, block := range result.Content {
		if s.left <= 0 {
			blocks = append(blocks, mark(fmt.Sprintf("%d more blocks of the result were left out: it has more than the %s that the pool allows",
				len(result.Content)-i, size(limit))))
			s.cut = true
			break
		}
		blocks = append(blocks, s.block(block))
	}
	result.Content, result.Truncated = blocks, s.cut
}

// shortener counts what may still be kept.
type shortener struct {
	left, limit int
	cut         bool
}

// block keeps a block, cuts its text, or says that it is missing.
func (s *shortener) block(c *mcppoolv1.Content) *mcppoolv1.Content {
	text, what, bytes := partsOfBlock(c)
	switch {
	case text != nil:
		*text = s.text(*text)
	case bytes > s.left:
		return s.instead(what, bytes)
	default:
		s.left -= bytes
	}
	return c
}

// partsOfBlock returns the text of a block that can be cut, or what the block is, and how many bytes of it are counted.
func partsOfBlock(c *mcppoolv1.Content) (text *string, what string, bytes int) {
	switch kind := c.GetKind().(type) {
	case *mcppoolv1.Content_Text:
		return &kind.Text, "", len(kind.Text)
	case *mcppoolv1.Content_Image:
		return nil, "an image (" + brief(kind.Image.GetMimeType()) + ")", len(kind.Image.GetData())
	case *mcppoolv1.Content_Audio:
		return nil, "a sound (" + brief(kind.Audio.GetMimeType()) + ")", len(kind.Audio.GetData())
	case *mcppoolv1.Content_Resource:
		r := kind.Resource
		if len(r.GetBlob()) > 0 {
			return nil, "the resource " + brief(r.GetUri()), len(r.GetBlob()) + len(r.GetText())
		}
		return &r.Text, "", len(r.GetText())
	case *mcppoolv1.Content_ResourceLink:
		l := kind.ResourceLink
		return nil, "a link", len(l.GetUri()) + len(l.GetName()) + len(l.GetDescription()) + len(l.GetMimeType())
	}
	return nil, "", 0
}

func contentSize(blocks []*mcppoolv1.Content) (n int) {
	for _, c := range blocks {
		_, _, bytes := partsOfBlock(c)
		n += bytes
	}
	return n
}

// text cuts a text where it is too long, between two characters.
func (s *shortener) text(text string) string {
	if len(text) <= s.left {
		s.left -= len(text)
		return text
	}
	end := s.left
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	s.cut, s.left = true, 0
	return strings.Clone(text[:end]) + fmt.Sprintf("\n[cut off: %d more bytes; the result has more than the %s that the pool allows]",
		len(text)-end, size(s.limit))
}

// instead returns the note for content that is left out.
func (s *shortener) instead(what string, bytes int) *mcppoolv1.Content {
	s.cut = true
	return mark(fmt.Sprintf("%s of %d bytes was left out: the result has more than the %s that the pool allows", what, bytes, size(s.limit)))
}

func mark(text string) *mcppoolv1.Content {
	return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Text{Text: "[" + text + "]"}}
}

// brief cuts a server's text for a message.
func brief(s string) string {
	if len(s) <= maxBrief {
		return s
	}
	return strings.ToValidUTF8(s[:maxBrief], "") + "…"
}

func size(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
