package test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pawl.dev/test/modelserver/modeltest"
)

// terminal opens a pseudo-terminal: the side of the person, and the side of the program.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return person, program
}

// TestModelAsksAtTheTerminal answers the approval of a step that a model planned with ?, n and y, as a person does.
func TestModelAsksAtTheTerminal(t *testing.T) {
	sh, play, _ := planningShell(t)
	for _, tc := range []struct {
		name    string
		typed   []string // pairs of a text on the terminal and what is typed after it
		code    int
		written string
	}{
		{"approved", []string{"[a]pprove", "?\n", "run it with this input", "y\n"}, 0, "once\n"},
		{"rejected", []string{"[a]pprove", "n\n", "reason (may be empty)", "not today\n"}, 2, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			effects := filepath.Join(t.TempDir(), "effects")
			play.set(func(r *modeltest.Request) *modeltest.Turn {
				if r.Results > 0 {
					return &modeltest.Turn{Text: "It is written."}
				}
				return &modeltest.Turn{Calls: []modeltest.Call{appendCall("t__append", effects, "once")}}
			}, 0, false)
			sh.t = t
			person, program := terminal(t)
			cmd := sh.command("run", "--auto", "--no-workspace", "--mcp", "t", "--model", "anthropic:m", "Do it")
			cmd.Env = append(cmd.Env, "NO_COLOR=1")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = program.Close() // the program has its own
			var seen bytes.Buffer
			page := make([]byte, 4096)
			for typed := tc.typed; ; {
				n, err := person.Read(page)
				seen.Write(page[:n])
				if len(typed) > 0 && strings.Contains(seen.String(), typed[0]) {
					if _, err := person.WriteString(typed[1]); err != nil {
						t.Fatal(err)
					}
					typed = typed[2:]
				}
				if err != nil { // the program has ended, and with it its terminal
					break
				}
			}
			if code := codeOf(cmd.Wait()); code != tc.code || tc.code == 0 != strings.Contains(seen.String(), "It is written.") {
				t.Errorf("code %d\n%s", code, seen.String())
			}
			if raw, _ := os.ReadFile(effects); string(raw) != tc.written {
				t.Errorf("written: %q\n%s", raw, seen.String())
			}
		})
	}
}
