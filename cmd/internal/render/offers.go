package render

import (
	"fmt"
	"io"
	"strings"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// Resource prints what is in a resource, part by part. At a terminal (tty) texts are made harmless, and bytes are only named.
func Resource(w io.Writer, tty bool, parts []*mcppoolv1.Resource) error {
	for _, part := range parts {
		text := part.GetText()
		switch {
		case len(part.GetBlob()) > 0 && tty:
			text = fmt.Sprintf("[%s %s, %d bytes]\n", part.GetUri(), part.GetMimeType(), len(part.GetBlob()))
		case len(part.GetBlob()) > 0:
			text = string(part.GetBlob())
		}
		if tty {
			text = strings.TrimRight(Text(text), "\n") + "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// Prompt prints the messages of a prompt, each after who says it. clean makes texts harmless.
func Prompt(w io.Writer, st Style, clean bool, prompt *mcppoolv1.GetPromptResponse) error {
	var b strings.Builder
	for i, m := range prompt.GetMessages() {
		if i > 0 {
			b.WriteString("\n")
		}
		text := contentText(m.GetContent())
		if clean {
			text = Text(text)
		}
		b.WriteString(st.Bold(Line(m.GetRole())+":") + "\n" + strings.TrimRight(text, "\n") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
