//go:build !linux

package process

import "errors"

// awaitExit returns at once: the caller's Wait blocks a thread on this system.
func awaitExit(int) {}

// closeOnExec is a no-op on this system.
func closeOnExec() {}

// LimitsWork reports whether children can be limited on this system.
const LimitsWork = false

func limit(_ int, l Limits) error {
	if l.None() {
		return nil
	}
	return errors.New("processes can be limited on Linux only; run the pool without limits for children")
}
