package mcp

import (
	"fmt"
	"io"
	"strings"

	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// Progress shows how far a single call is and what its server logs.
type Progress struct {
	live  ui.LiveLine
	w     io.Writer
	style ui.Style
}

// NewProgress shows on w; live says that a line may be written over.
func NewProgress(w io.Writer, live bool, style ui.Style) *Progress {
	return &Progress{live: ui.LiveLine{W: w, On: live}, w: w, style: style}
}

// Show shows a message of a call's stream; results are not its business.
func (p *Progress) Show(msg *mcppoolv1.CallToolResponse) {
	if pr := msg.GetProgress(); pr != nil {
		text := ui.Number(pr.GetProgress())
		if pr.GetTotal() > 0 {
			text += "/" + ui.Number(pr.GetTotal())
		}
		p.live.Draw(p.style.Cyan(strings.TrimSpace("… " + text + " " + ui.Line(pr.GetMessage()))))
	}
	if l := msg.GetLog(); l != nil {
		p.Clear()
		who := ui.Line(strings.TrimSpace(l.GetLevel() + " " + l.GetLogger()))
		ui.Put(p.w, p.style.Dim(who+" "+ui.CompactJSON(l.GetDataJson()))+"\n")
	}
}

// Clear takes the line away.
func (p *Progress) Clear() { p.live.Clear() }

// CallResult prints what a tool gave: texts, and other content by what it is.
func CallResult(w io.Writer, result *mcppoolv1.CallResult) error {
	var b strings.Builder
	for _, c := range result.GetContent() {
		b.WriteString(strings.TrimRight(ui.Text(contentText(c)), "\n") + "\n")
	}
	if len(result.GetContent()) == 0 && result.GetStructuredJson() != "" {
		b.WriteString(ui.PrettyJSON(result.GetStructuredJson(), "") + "\n")
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
