package suite

import (
	"context"
	"errors"
	"testing"
)

// A part that ends before it is told to has failed, which is reported once.
func TestAPartThatFails(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		result error
		want   string
	}{
		"with an error": {broken, "gateway: broken"},
		"without one":   {nil, "gateway ended by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 1)
			p := &part{name: "gateway", run: func(context.Context) error { return tc.result }}
			p.start(t.Context(), failed)
			if err := <-failed; err.Error() != tc.want {
				t.Errorf("got %v", err)
			}
			if err := stop([]*part{p}); err != nil {
				t.Errorf("reported again: %v", err)
			}
		})
	}
}

// An error while stopping is reported too.
func TestAPartThatFailsToStop(t *testing.T) {
	p := &part{name: "executor", run: func(ctx context.Context) error { <-ctx.Done(); return errors.New("stuck") }}
	p.start(t.Context(), make(chan error, 1))
	if err := stop([]*part{p}); err == nil || err.Error() != "executor: stuck" {
		t.Errorf("got %v", err)
	}
}
