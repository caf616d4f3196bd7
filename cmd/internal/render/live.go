package render

import (
	"io"
	"strconv"
	"strings"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// liveLine is one line of a terminal that is written over.
type liveLine struct {
	w     io.Writer
	on    bool
	shown string
}

func (l *liveLine) draw(line string) {
	if !l.on || line == l.shown {
		return
	}
	put(l.w, "\r\x1b[K"+line)
	l.shown = line
}

func (l *liveLine) clear() {
	if l.shown == "" {
		return
	}
	put(l.w, "\r\x1b[K")
	l.shown = ""
}

// put writes while something is shown as it comes. Whoever owns the writer keeps its error.
func put(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// answerView prints the answer piece by piece, each piece once.
type answerView struct {
	id   string
	text strings.Builder
	open bool // the cursor stands behind a piece that did not end its line
	done bool
}

func (a *answerView) add(cfg EventsConfig, t *executorv1.TextAdd) {
	if a.id != "" && a.id != t.GetAnswerId() {
		a.end(cfg)
		put(cfg.Log, cfg.Style.Yellow("! the answer was interrupted and starts again:")+"\n")
		a.text.Reset()
	}
	if a.id != t.GetAnswerId() && cfg.Clean {
		put(cfg.Out, "\n")
	}
	a.id = t.GetAnswerId()
	a.text.WriteString(t.GetText())
	a.write(cfg, t.GetText())
}

// complete prints the whole answer where its pieces were not seen.
func (a *answerView) complete(cfg EventsConfig, s *executorv1.FlowSuccess) {
	if a.id == "" && s.GetFullAnswer() != "" && !a.done {
		if cfg.Clean {
			put(cfg.Out, "\n")
		}
		a.write(cfg, s.GetFullAnswer())
	}
	a.done = true
	a.end(cfg)
	if cfg.Clean {
		put(cfg.Out, "\n")
	}
}

func (a *answerView) write(cfg EventsConfig, text string) {
	if text == "" {
		return
	}
	a.open = !strings.HasSuffix(text, "\n")
	if cfg.Clean {
		text = Text(text)
	}
	put(cfg.Out, text)
}

// end finishes the line that the answer stands on.
func (a *answerView) end(cfg EventsConfig) {
	if a.open {
		put(cfg.Out, "\n")
		a.open = false
	}
}

func itoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// number prints a float without needless digits.
func number(f float64) string {
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(f, 'f', 2, 64), "0"), ".")
}
