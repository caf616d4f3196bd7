package catalog

import (
	"encoding/json"
	"strings"
	"testing"
)

// A tool whose name has control or invisible characters is left out, and the catalog says so; the others can be used.
func TestToolsWithDeceptiveNamesAreSkipped(t *testing.T) {
	for name, raw := range map[string]string{
		"an escape":        `"say\u001b[2J"`,
		"a newline":        `"say\nsay"`,
		"a C1 control":     `"say\u009b"`,
		"a bidi override":  `"say\u202etxt"`,
		"a bidi isolate":   `"say\u2066x"`,
		"a zero width one": `"sa\u200by"`,
		"a line separator": `"say\u2028"`,
	} {
		c, err := Read([]json.RawMessage{
			json.RawMessage(`{"name":"good","inputSchema":{"type":"object"}}`), json.RawMessage(`{"name":` + raw + `,"inputSchema":{"type":"object"}}`),
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(c.Tools) != 1 || c.Tools[0].Name != "good" || len(c.Skipped) != 1 || !strings.Contains(c.Skipped[0], "control or invisible") ||
			strings.ContainsFunc(c.Skipped[0], isDeceptive) {
			t.Errorf("%s: %d tools, skipped %q", name, len(c.Tools), c.Skipped)
		}
	}
	c, err := Read([]json.RawMessage{json.RawMessage(`{"name":"查找 café_1.2/x","inputSchema":{"type":"object"}}`)})
	if err != nil || len(c.Tools) != 1 || len(c.Skipped) != 0 {
		t.Errorf("a plain name: %+v, %v", c, err)
	}
}
