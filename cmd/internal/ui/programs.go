package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Editor lets the person change a text in $VISUAL or $EDITOR; nil where neither is set. An editor is never killed: it
// has the terminal until the person is done.
func Editor(getenv func(string) string) func(context.Context, string) (string, error) {
	command := strings.Fields(cmp.Or(getenv("VISUAL"), getenv("EDITOR")))
	if len(command) == 0 {
		return nil
	}
	return func(ctx context.Context, text string) (edited string, err error) {
		file, err := os.CreateTemp("", "pawl-*.json")
		if err != nil {
			return "", fmt.Errorf("make a file to edit: %w", err)
		}
		defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
		_, err = file.WriteString(text)
		if err = errors.Join(err, file.Close()); err != nil {
			return "", fmt.Errorf("make a file to edit: %w", err)
		}
		cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], append(command[1:len(command):len(command)], file.Name())...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("run the editor %s: %w", command[0], err)
		}
		raw, err := os.ReadFile(file.Name())
		if err != nil {
			return "", fmt.Errorf("read what was edited: %w", err)
		}
		return string(raw), nil
	}
}

// Browser opens addresses in the person's browser; nil where this machine has none to show.
func Browser(getenv func(string) string) func(address string) error {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	default:
		if getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "" {
			return nil
		}
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return nil
	}
	return func(address string) error {
		cmd := exec.Command(program, append(command[1:len(command):len(command)], address)...) //nolint:noctx // it outlives the command
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("open a browser with %s: %w", command[0], err)
		}
		return cmd.Process.Release()
	}
}
