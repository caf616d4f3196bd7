package ui

import (
	"fmt"
	"os/exec"
	"runtime"
)

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
