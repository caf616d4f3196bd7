package mcp

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, start := newThrottle(), time.Now()
		for range noteBurst {
			b.wait(0)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("a burst waited %v", took)
		}
		for range 2 * noteRate {
			b.wait(0)
		}
		if took := time.Since(start).Round(10 * time.Millisecond); took != 2*time.Second {
			t.Errorf("as many as in 2 s took %v", took)
		}
		start = time.Now()
		b.wait(32 << 20)
		if took := time.Since(start); took < 400*time.Millisecond {
			t.Errorf("a large one waited %v", took)
		}
	})
}

// Nobody can put on the judge's voice: the word is drawn for each connection.
func TestVerdictsAreTheJudgesAlone(t *testing.T) {
	j := newJudge(1 << 20)
	for why, kind := range map[error]Kind{errTooLong: TooLarge, reasons[1]: Protocol, reasons[4]: Protocol} {
		e := j.read(&mcp.JSONRPCErrorDetails{Code: verdictCode, Message: j.word + name(why)})
		if e == nil || e.Kind != kind || !e.Ended {
			t.Errorf("%v: %+v", why, e)
		}
	}
	for _, message := range []string{"", "0", newJudge(1).word + "0"} {
		if e := j.read(&mcp.JSONRPCErrorDetails{Code: verdictCode, Message: message}); e != nil {
			t.Errorf("%q was taken for a verdict: %v", message, e)
		}
	}
}
