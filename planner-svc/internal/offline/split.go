package offline

import (
	"strings"

	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/rank"
)

// split divides a goal into demands, in order: at the end of a line or sentence, at "then", and at a comma or "and" before a verb or question.
func split(goal string) (demands []string) {
	c, from := input.Scan(goal), 0
	cut := func(to, next int) {
		if d := strings.Trim(c.Text[from:to], " \t\r\n.,，;"); d != "" {
			demands = append(demands, d)
		}
		from = next
	}
	for i, t := range c.Tokens {
		rest := c.Text[t.End:]
		ends := rank.In("ends", t.Text) && (!strings.Contains(".!?", t.Text) || rest == "" || strings.TrimLeft(rest, " \r\n\t") != rest)
		joins := rank.In("joins", t.Term) && i+1 < len(c.Tokens) && (rank.In("starts", c.Tokens[i+1].Text) || rank.In("ends", c.Tokens[i+1].Text))
		if t.Value == nil && (ends || joins) {
			cut(t.Start, t.End)
		} else if i > 0 && strings.Contains(c.Text[c.Tokens[i-1].End:t.Start], "\n") {
			cut(t.Start, t.Start)
		}
	}
	cut(len(c.Text), len(c.Text))
	return demands
}
