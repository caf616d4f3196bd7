package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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

// atTheTerminal runs a command at a terminal where ahead is typed before the command begins, and then, after each first text of typed has appeared, the second one.
// It returns what was on the terminal, and the exit code.
func atTheTerminal(t *testing.T, cmd *exec.Cmd, ahead string, typed []string) (seen string, code int) {
	t.Helper()
	person, program := terminal(t)
	if _, err := person.WriteString(ahead); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120}); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "NO_COLOR=1", "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close() // the program has its own
	defer time.AfterFunc(4*caseTimeout, func() { _ = cmd.Process.Kill() }).Stop()
	page := make([]byte, 4096)
	for from := 0; ; {
		n, err := person.Read(page)
		seen += string(page[:n])
		for len(typed) > 0 {
			i := strings.Index(seen[from:], typed[0])
			if i < 0 {
				break
			}
			from += i + len(typed[0])
			if _, err := person.WriteString(typed[1]); err != nil {
				t.Fatal(err)
			}
			typed = typed[2:]
		}
		if err != nil { // the program has ended, and with it its terminal
			break
		}
	}
	if len(typed) > 0 {
		t.Errorf("%q did not appear", typed[0])
	}
	return seen, codeOf(cmd.Wait())
}

// TestChatAtTheTerminal holds a conversation as a person does: a line typed before the program reads, an approval with an edited input, Ctrl-C during a reply and twice,
// Ctrl-D at a question, which stays open and is asked again when the topic is opened: lines typed before that are messages, and do not answer it.
func TestChatAtTheTerminal(t *testing.T) {
	sh, play, _ := planningShell(t)
	effects, editor := filepath.Join(t.TempDir(), "effects"), filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i s/once/twice/ \"$1\"; echo 'press enter'; read line; echo \"read $line\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	sh.env = append(sh.env, "VISUAL="+editor)
	newest := regexp.MustCompile(`(?m)^The newest message(?:, from .+)?\n(.+)$`)
	play.set(func(r *modeltest.Request) *modeltest.Turn {
		all := strings.Join(r.Texts, "\n")
		message := ""
		if found := newest.FindStringSubmatch(all); found != nil {
			message = found[1]
		}
		switch selecting := strings.Contains(r.Texts[len(r.Texts)-1], "Call all tools") || r.Results > 0; {
		case selecting && r.Results == 0 && strings.HasPrefix(message, "PLEASE write"):
			return &modeltest.Turn{Calls: []modeltest.Call{appendCall("t__append", effects, "once")}}
		case strings.Contains(all, "Write your reply now") && strings.HasPrefix(message, "PLEASE talk"):
			return &modeltest.Turn{Text: "I talk" + strings.Repeat(" and talk", 1000), Pause: modeltest.Seconds(100 * time.Millisecond)}
		}
		return &modeltest.Turn{Text: "It is written."}
	}, 0, false)
	sh.expect(0, "helper is created", "", "agents", "create", "helper", "--confirm", "by-risk", "--mcp", "t", "--model", "anthropic:m")
	const ctrlC, ctrlD, question = "\x03", "\x04", "[d]etach, ?: "
	chat := []string{"chat", "--agent", "helper"}
	seen, code := atTheTerminal(t, sh.command(chat...), "PLEASE write\r", []string{
		question, "e\r", "press enter", "x\r", "pprove the edited input", "y\r", "It is written.", "/files\r",
		"no files", "PLEASE talk\r", "and talk", ctrlC, "ended early: interrupted", "/agents\r",
		"@helper  agent helper", "PLEASE write\r", question, "/agents\r", "@helper  agent helper", "", question, "/interrupt\r", "no longer open", "PLEASE write\r", question, ctrlD, "the question stays open", "/agents\r", "@helper  agent helper", ctrlD,
	})
	if raw, _ := os.ReadFile(effects); code != 0 || string(raw) != "twice\n" || !strings.Contains(seen, "read x") || strings.Contains(seen, "?: > ") {
		t.Errorf("code %d, written %q\n%s", code, raw, seen)
	}
	seen, code = atTheTerminal(t, sh.command(chat...), "a\ry\r", []string{
		question, "n\r", "reason", "\r", "It is written.", "PLEASE talk\r", "and talk", ctrlC, "Ctrl-C again leaves", ctrlC,
	})
	if raw, _ := os.ReadFile(effects); code != 2 || string(raw) != "twice\n" || !strings.Contains(seen, "approved: t/append {") {
		t.Errorf("code %d\n%s", code, seen)
	}
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
			cmd := sh.command("run", "--auto", "--no-workspace", "--mcp", "t", "--model", "anthropic:m", "Do it")
			seen, code := atTheTerminal(t, cmd, "", tc.typed)
			if code != tc.code || tc.code == 0 != strings.Contains(seen, "It is written.") {
				t.Errorf("code %d\n%s", code, seen)
			}
			if raw, _ := os.ReadFile(effects); string(raw) != tc.written {
				t.Errorf("written: %q\n%s", raw, seen)
			}
		})
	}
}
