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

func (s *shortener) block(c *mcppoolv1.Content) *mcppoolv1.Content {
	switch kind := c.GetKind().(type) {
	case *mcppoolv1.Content_Text:
		kind.Text = s.text(kind.Text)
	case *mcppoolv1.Content_Image:
		return s.whole(c, "an image ("+brief(kind.Image.GetMimeType())+")")
	case *mcppoolv1.Content_Audio:
		return s.whole(c, "a sound ("+brief(kind.Audio.GetMimeType())+")")
	case *mcppoolv1.Content_Resource:
		if r := kind.Resource; len(r.GetBlob()) > 0 {
			return s.whole(c, "the resource "+brief(r.GetUri()))
		}
		kind.Resource.Text = s.text(kind.Resource.GetText())
	case *mcppoolv1.Content_ResourceLink:
		return s.whole(c, "a link")
	}
	return c
}

// blockSize is what of a block is counted, in bytes.
func blockSize(c *mcppoolv1.Content) int {
	switch kind := c.GetKind().(type) {
	case *mcppoolv1.Content_Text:
		return len(kind.Text)
	case *mcppoolv1.Content_Image:
		return len(kind.Image.GetData())
	case *mcppoolv1.Content_Audio:
		return len(kind.Audio.GetData())
	case *mcppoolv1.Content_Resource:
		return len(kind.Resource.GetBlob()) + len(kind.Resource.GetText())
	case *mcppoolv1.Content_ResourceLink:
		link := kind.ResourceLink
		return len(link.GetUri()) + len(link.GetName()) + len(link.GetDescription()) + len(link.GetMimeType())
	}
	return 0
}

func contentSize(blocks []*mcppoolv1.Content) (n int) {
	for _, c := range blocks {
		n += blockSize(c)
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

// whole keeps a block, or says that it is missing.
func (s *shortener) whole(c *mcppoolv1.Content, what string) *mcppoolv1.Content {
	bytes := blockSize(c)
	if bytes <= s.left {
		s.left -= bytes
		return c
	}
	return s.instead(what, bytes)
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
