package cli_test

import (
	"strings"
	"testing"

	"pawl.dev/cmd/internal/clitest"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// What a server asks within a command's own process can be answered in that process alone: no other command is suggested.
func TestQuestionThatEndsWithTheCommand(t *testing.T) {
	for name, tty := range map[string]bool{"no person is there": false, "left at the prompt": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "app")
			w.executor.OnCreate = func(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) {
				tape.Wait(clitest.InputWait("s1", tool, "s1", "which?", inputSchema, "")).Play(clitest.Stop("s1"))
			}
			w.tty, w.typed = tty, strings.NewReader("d\n")
			got := w.pawl("run", "ask")
			got.err = strings.Join(strings.Fields(got.err), " ") // a terminal's lines
			got.expect(t, 2, "", "it cannot be answered later; start pawl up in another terminal, then run the task again here")
			if strings.Contains(got.err, "pawl input") || strings.Contains(got.err, "pawl show") {
				t.Error(got.whole())
			}
		})
	}
}
