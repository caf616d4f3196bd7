package task

import (
	"strings"

	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// answerView prints the answer piece by piece, each piece once.
type answerView struct {
	id   string
	text strings.Builder
	open bool // the last piece did not end its line
	done bool
}

func (a *answerView) add(cfg EventsConfig, t *executorv1.TextAdd) {
	if a.id != "" && a.id != t.GetAnswerId() {
		a.end(cfg)
		ui.Put(cfg.Log, cfg.Style.Yellow("! the answer was interrupted and starts again:")+"\n")
		a.text.Reset()
	}
	if a.id != t.GetAnswerId() && cfg.SeparateAnswer {
		ui.Put(cfg.Out, "\n")
	}
	a.id = t.GetAnswerId()
	a.text.WriteString(t.GetText())
	a.write(cfg, t.GetText())
}

// complete prints the whole answer if its pieces were not printed.
func (a *answerView) complete(cfg EventsConfig, s *executorv1.FlowSuccess) {
	if a.id == "" && s.GetFullAnswer() != "" && !a.done {
		if cfg.SeparateAnswer {
			ui.Put(cfg.Out, "\n")
		}
		a.write(cfg, s.GetFullAnswer())
	}
	a.done = true
	a.end(cfg)
	if cfg.SeparateAnswer {
		ui.Put(cfg.Out, "\n")
	}
}

func (a *answerView) write(cfg EventsConfig, text string) {
	if text == "" {
		return
	}
	a.open = !strings.HasSuffix(text, "\n")
	ui.Put(cfg.Out, ui.Text(text))
}

// end finishes the answer's last line.
func (a *answerView) end(cfg EventsConfig) {
	if a.open {
		ui.Put(cfg.Out, "\n")
		a.open = false
	}
}
