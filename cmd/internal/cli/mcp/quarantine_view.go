package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// maxChanges is how many differences the pool names at most.
const maxChanges = 50

// quarantined shows what a person has to look at before a tool is approved: what changed, place by place, or all of it where
// there is nothing to compare with. Nothing is cut: what is not shown would be approved unseen.
func quarantined(st ui.Style, q *mcppoolv1.QuarantinedTool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", st.Bold(ui.Line(q.GetTool().GetId())), st.Yellow(whyQuarantined(q)))
	if q.GetApproveTime() != nil {
		by := "seen for the first time"
		if q.GetApprovedBy() != "" {
			by = "approved by " + ui.Line(q.GetApprovedBy())
		}
		fmt.Fprintf(&b, "  %s\n", st.Dim("before: "+by+", "+q.GetApproveTime().AsTime().UTC().Format("2006-01-02 15:04 UTC")))
	}
	if q.GetApprovedDefinitionJson() == "" {
		if q.GetApprovedDefinitionHash() != "" {
			fmt.Fprintf(&b, "  %s\n", st.Dim("that definition was too long to be kept, so what changed is not known"))
		}
		fmt.Fprintf(&b, "\n  definition\n%s\n", ui.PrettyJSON(q.GetDefinitionJson(), "  "))
	} else {
		before, after := decoded(q.GetApprovedDefinitionJson()), decoded(q.GetDefinitionJson())
		for _, at := range q.GetChanges() {
			fmt.Fprintf(&b, "\n  %s\n", ui.Line(cmp.Or(at, "the whole definition")))
			b.WriteString(side(st.Red, "-", before, at))
			b.WriteString(side(st.Green, "+", after, at))
		}
		if n := len(q.GetChanges()); n == 0 || n >= maxChanges { // none where only the spelling differs
			fmt.Fprintf(&b, "\n  %s\n%s\n", st.Yellow("these may not be all changes; the whole definition"), ui.PrettyJSON(q.GetDefinitionJson(), "  "))
		}
	}
	fmt.Fprintf(&b, "\n  %s\n", st.Dim("definition hash "+ui.Line(q.GetTool().GetDefinitionHash())))
	return b.String()
}

// whyQuarantined says in a word why a tool waits.
func whyQuarantined(q *mcppoolv1.QuarantinedTool) string {
	if q.GetApprovedDefinitionHash() == "" {
		return "new"
	}
	return "changed"
}

// decoded keeps numbers as they are written; nil where it is no JSON.
func decoded(raw string) any {
	dec := json.NewDecoder(strings.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	return v
}

// side is one side of a difference, each line behind its mark.
func side(paint func(string) string, mark string, v any, pointer string) string {
	text := "(absent)"
	if v, ok := resolve(v, pointer); ok {
		text = valueText(v)
	}
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString("    " + paint(mark+" "+line) + "\n")
	}
	return b.String()
}

// valueText is a value as JSON; a text of several lines is shown as such.
func valueText(v any) string {
	if text, ok := v.(string); ok && strings.Contains(strings.TrimSpace(text), "\n") {
		return ui.Text(text)
	}
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // it was decoded from JSON
	return ui.PrettyJSON(strings.TrimSpace(raw.String()), "")
}

// resolve finds a place by its JSON pointer (RFC 6901).
func resolve(v any, pointer string) (any, bool) {
	if pointer == "" {
		return v, v != nil
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for key := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch in := v.(type) {
		case map[string]any:
			next, ok := in[unescape.Replace(key)]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}
