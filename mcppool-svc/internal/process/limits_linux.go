package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LimitsWork reports whether children can be limited on this system.
const LimitsWork = true

// limit bounds a process that has just been started, and all that it starts from then on. Its address space is left alone:
// V8 and Go reserve much more of it than they use.
func limit(pid int, l Limits) error {
	limits := map[int]uint64{unix.RLIMIT_DATA: l.Memory, unix.RLIMIT_NOFILE: l.Files}
	for resource, most := range limits {
		if most == 0 {
			continue
		}
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
			return fmt.Errorf("limiting the process: %w", err)
		}
	}
	// A core file would hold the child's secrets.
	if err := unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil); err != nil {
		return fmt.Errorf("limiting the process: %w", err)
	}
	return nil
}
