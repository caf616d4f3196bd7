package render

import (
	"fmt"
	"io"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// Tool shows one tool as a whole, for whoever wants to call it.
func Tool(w io.Writer, st Style, tool *commonv1.Tool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", st.Bold(Line(tool.GetId())))
	effect := EffectName(tool.GetEffect())
	if tool.GetIdempotent() {
		effect += ", idempotent"
	}
	fmt.Fprintf(&b, "  %s\n", st.Dim("effect "+effect+", risk at least "+RiskName(tool.GetRiskFloor())))
	if text := strings.TrimSpace(tool.GetDescription()); text != "" {
		fmt.Fprintf(&b, "\n  %s\n", strings.ReplaceAll(Text(text), "\n", "\n  "))
	}
	fmt.Fprintf(&b, "\n  input\n%s\n", PrettyJSON(tool.GetInputSchemaJson(), "  "))
	if tool.GetOutputSchemaJson() != "" {
		fmt.Fprintf(&b, "\n  output\n%s\n", PrettyJSON(tool.GetOutputSchemaJson(), "  "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
