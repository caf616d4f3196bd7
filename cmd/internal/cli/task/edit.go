package task

import (
	"context"
	"errors"
	"io"
	"strings"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// textEdit is a person's work on a text in an editor. A text with a mistake is not lost: the editor opens it again.
type textEdit struct {
	editor  func(context.Context, string) (string, error) // nil: there is none
	text    string                                        // as edited last
	wait    string                                        // the wait that the edit answers
	problem string                                        // why the text was not used; "" if it was, or before the first edit
}

// run opens original, or the text that was not used, until accept takes the text. help is a comment that precedes the text.
func (e *textEdit) run(ctx context.Context, help, original string, accept func(text string) error) (err error) {
	for {
		head, before := help, original
		if e.problem != "" {
			head, before = "# "+strings.ReplaceAll(e.problem, "\n", "\n# ")+"\n# Correct it, or leave it as it is to give the edit up.\n"+help, e.text
		}
		if e.text, err = e.editor(ctx, head+before); err != nil {
			return err
		}
		for strings.HasPrefix(e.text, "#") {
			_, e.text, _ = strings.Cut(e.text, "\n")
		}
		problem := e.problem
		if e.problem = ""; problem != "" && e.text == before {
			return ui.Errorf("%s", problem)
		}
		mistake := accept(e.text)
		if mistake == nil {
			return nil
		}
		e.problem = mistake.Error()
	}
}

// refused reports whether err means that the service does not accept the edited text, so that the edit goes on.
func (e *textEdit) refused(err error) bool {
	switch errs.Reason(err) {
	case commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT:
		if e.text != "" {
			e.problem = ui.AsError(err).Message
		}
		return e.text != ""
	}
	return false
}

// input lets the person edit the input of a call, and returns the edited input.
func (e *textEdit) input(ctx context.Context, current string) (edited string, err error) {
	err = e.run(ctx, "", strings.TrimSpace(ui.PrettyJSON(current, ""))+"\n", func(text string) (err error) {
		edited, err = ui.Object(text)
		return err
	})
	return edited, err
}

// changeInput lets the person edit the input of a call, in the editor or, if there is none, on one line. It returns current if nothing changed or the
// person gave the edit up.
func (p Asker) changeInput(ctx context.Context, current string) (edited string, err error) {
	old, _ := ui.Object(current)
	if p.edit.editor != nil {
		edited, err = p.edit.input(ctx, current)
	} else if edited, err = p.Read(ctx, "    new input as JSON on one line (empty: unchanged): "); edited == "" {
		edited = old
	} else if err == nil {
		edited, err = ui.Object(edited)
	}
	switch {
	case errors.Is(err, io.EOF) || ctx.Err() != nil:
		return current, err
	case err != nil:
		p.Complain("not used: %s", ui.Line(err.Error()))
		return current, nil
	case edited == old:
		p.Print("    the input is unchanged\n")
		return current, nil
	}
	p.Print("%s\n", ui.PrettyJSON(edited, "    "))
	return edited, nil
}
