package serve

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

func TestMainReportsErrors(t *testing.T) {
	var stderr bytes.Buffer
	code := runMain("pool", func(context.Context) error { return errors.New("no journal; start it with --data") }, nil, &stderr, nil)
	if code != 1 || stderr.String() != "pool: no journal; start it with --data\n" {
		t.Errorf("code %d, stderr %q", code, &stderr)
	}
	if code := runMain("pool", func(context.Context) error { return nil }, nil, &stderr, nil); code != 0 {
		t.Errorf("success has code %d", code)
	}
}

func TestMainSignals(t *testing.T) {
	signals := make(chan os.Signal)
	exited := make(chan int, 1)
	var stderr bytes.Buffer
	code := runMain("pool", func(ctx context.Context) error {
		signals <- os.Interrupt
		<-ctx.Done()
		signals <- os.Interrupt // while it still stops
		if code := <-exited; code != 1 {
			t.Errorf("exit code %d", code)
		}
		return nil
	}, signals, &stderr, func(code int) { exited <- code })
	if code != 0 || !strings.Contains(stderr.String(), "second signal") {
		t.Errorf("code %d, stderr %q", code, &stderr)
	}
}
