package render

import (
	"fmt"
	"io"
	"strings"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// Progress shows how far a single call is and what its server logs.
type Progress struct {
	live  liveLine
	w     io.Writer
	style Style
}

// NewProgress shows on w; live says that a line may be written over.
func NewProgress(w io.Writer, live bool, style Style) *Progress {
	return &Progress{live: liveLine{w: w, on: live}, w: w, style: style}
}

// Show shows a message of a call's stream; results are not its business.
func (p *Progress) Show(msg *mcppoolv1.CallToolResponse) {
	if pr := msg.GetProgress(); pr != nil {
		text := number(pr.GetProgress())
		if pr.GetTotal() > 0 {
			text += "/" + number(pr.GetTotal())
		}
		p.live.draw(p.style.Cyan(strings.TrimSpace("… " + text + " " + Line(pr.GetMessage()))))
	}
	if l := msg.GetLog(); l != nil {
		p.Clear()
		who := Line(strings.TrimSpace(l.GetLevel() + " " + l.GetLogger()))
		put(p.w, p.style.Dim(who+" "+CompactJSON(l.GetDataJson()))+"\n")
	}
}

// Clear takes the line away.
func (p *Progress) Clear() { p.live.clear() }

// CallResult prints what a tool gave: texts as they are, other content by what it is. clean makes texts harmless.
func CallResult(w io.Writer, clean bool, result *mcppoolv1.CallResult) error {
	var b strings.Builder
	for _, c := range result.GetContent() {
		text := contentText(c)
		if clean {
			text = Text(text)
		}
		b.WriteString(strings.TrimRight(text, "\n") + "\n")
	}
	if len(result.GetContent()) == 0 && result.GetStructuredJson() != "" {
		b.WriteString(PrettyJSON(result.GetStructuredJson(), "") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func contentText(c *mcppoolv1.Content) string {
	switch k := c.GetKind().(type) {
	case *mcppoolv1.Content_Text:
		return k.Text
	case *mcppoolv1.Content_Image:
		return fmt.Sprintf("[image %s, %d bytes]", k.Image.GetMimeType(), len(k.Image.GetData()))
	case *mcppoolv1.Content_Audio:
		return fmt.Sprintf("[audio %s, %d bytes]", k.Audio.GetMimeType(), len(k.Audio.GetData()))
	case *mcppoolv1.Content_Resource:
		if k.Resource.GetText() != "" {
			return k.Resource.GetText()
		}
		return fmt.Sprintf("[resource %s %s, %d bytes]", k.Resource.GetUri(), k.Resource.GetMimeType(), len(k.Resource.GetBlob()))
	case *mcppoolv1.Content_ResourceLink:
		return fmt.Sprintf("[resource %s]", k.ResourceLink.GetUri())
	}
	return "[content of an unknown kind]"
}
