package mcp

import (
	"fmt"
	"io"
	"strings"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// Tool shows one tool as a whole.
func Tool(w io.Writer, st ui.Style, tool *commonv1.Tool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", st.Bold(ui.Line(tool.GetId())))
	effect := ui.EffectName(tool.GetEffect())
	if tool.GetIdempotent() {
		effect += ", idempotent"
	}
	fmt.Fprintf(&b, "  %s\n", st.Dim("effect "+effect+", risk at least "+ui.EnumName(tool.GetRiskFloor())))
	if text := strings.TrimSpace(tool.GetDescription()); text != "" {
		fmt.Fprintf(&b, "\n  %s\n", strings.ReplaceAll(ui.Text(text), "\n", "\n  "))
	}
	fmt.Fprintf(&b, "\n  input\n%s\n", ui.PrettyJSON(tool.GetInputSchemaJson(), "  "))
	if tool.GetOutputSchemaJson() != "" {
		fmt.Fprintf(&b, "\n  output\n%s\n", ui.PrettyJSON(tool.GetOutputSchemaJson(), "  "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
