package mcp

import (
	"fmt"
	"io"
	"strings"

	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// Resource prints what is in a resource, part by part. Bytes are only named at a terminal (tty).
func Resource(w io.Writer, tty bool, parts []*mcppoolv1.Resource) error {
	for _, part := range parts {
		text := strings.TrimRight(ui.Text(part.GetText()), "\n") + "\n"
		switch {
		case len(part.GetBlob()) > 0 && tty:
			text = fmt.Sprintf("[%s %s, %d bytes]\n", ui.Line(part.GetUri()), ui.Line(part.GetMimeType()), len(part.GetBlob()))
		case len(part.GetBlob()) > 0:
			text = string(part.GetBlob())
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// Prompt prints the messages of a prompt, each after who says it.
func Prompt(w io.Writer, st ui.Style, prompt *mcppoolv1.GetPromptResponse) error {
	var b strings.Builder
	for i, m := range prompt.GetMessages() {
		if i > 0 {
			b.WriteString("\n")
		}
		text := ui.Text(contentText(m.GetContent()))
		b.WriteString(st.Bold(ui.Line(m.GetRole())+":") + "\n" + strings.TrimRight(text, "\n") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
