package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
)

func text(s string) *pipelinev1.StreamCompleteResponse {
	return &pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_Text{Text: s}}
}

func note(s string) *pipelinev1.StreamCompleteResponse {
	return &pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_Note{Note: &pipelinev1.CompletionNote{Text: s}}}
}

// C12: a reader that stops delays nothing; what waits for it stays in order, and its texts become one.
func TestTeeNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, stopped, goOn := &Tee{}, make(chan struct{}), make(chan struct{})
		var got []string
		done := make(chan error, 1)
		go func() {
			done <- out.Forward(t.Context(), func(e *pipelinev1.StreamCompleteResponse) error {
				if len(got) == 0 {
					close(stopped)
					<-goOn
				}
				got = append(got, e.GetText()+e.GetNote().GetText())
				return nil
			})
		}()
		out.Send(text("first"))
		<-stopped
		for range 100_000 {
			out.Send(text("x"))
		}
		out.Send(note("n"))
		out.Send(text("last"))
		out.Close() // returns, as all of this did, while the reader still stands still
		if len(out.queue) != 2 || cap(out.text) > 64 {
			t.Errorf("%d events wait, and %d bytes", len(out.queue), cap(out.text))
		}
		close(goOn)
		if err := <-done; err != nil || strings.Join(got, " ") != "first "+strings.Repeat("x", 100_000)+" n last" {
			t.Errorf("%d events, %v", len(got), err)
		}
	})
}

func TestTeeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &Tee{}
		broken := errors.New("the reader is gone")
		out.Send(text("a"))
		if err := out.Forward(t.Context(), func(*pipelinev1.StreamCompleteResponse) error { return broken }); !errors.Is(err, broken) {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- out.Forward(ctx, func(*pipelinev1.StreamCompleteResponse) error { return nil }) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		var none *Tee
		none.Send(text("a"))
	})
}
