package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Variables of the environment.
const (
	// dieVariable is the number of the point at which the process dies; 0: at none.
	dieVariable = "PAWL_CRASH_DIE"
	// holdVariable is the number of the point at which a goroutine waits until a command is stored or a line arrives on standard input.
	holdVariable = "PAWL_CRASH_HOLD"
	// otherVariable is the id of another process, which is killed first at the point of dieVariable.
	otherVariable = "PAWL_CRASH_OTHER"
	// spareVariable, if set, spares this process: only the process of otherVariable is killed.
	spareVariable = "PAWL_CRASH_SPARE"
)

// killer counts the points that the process reaches, and kills it at one of them.
type killer struct {
	out         io.Writer
	hold, other int
	spare       bool
	held        chan struct{} // closed when the held goroutine may continue
	free        func()

	mu         sync.Mutex // guards the fields below, and the order of the lines that are written
	count, die int
}

func newKiller(out io.Writer) (*killer, error) {
	k := &killer{out: out, held: make(chan struct{}), spare: os.Getenv(spareVariable) != ""}
	k.free = sync.OnceFunc(func() { close(k.held) })
	for name, to := range map[string]*int{dieVariable: &k.die, holdVariable: &k.hold, otherVariable: &k.other} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		*to = n
	}
	return k, nil
}

// arm makes the process die at the nth point from now on.
func (k *killer) arm(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.die = k.count + n
	_, _ = fmt.Fprintln(k.out, "armed")
}

// at is the executor's observer.
func (k *killer) at(point string) {
	k.mu.Lock()
	k.count++
	n := k.count
	_, _ = fmt.Fprintf(k.out, "point %d %s\n", n, point)
	if n == k.die {
		k.kill() // with mu held, so that no goroutine reaches another point
	}
	// A command was stored while a goroutine is held: the goroutine continues.
	if k.hold > 0 && n > k.hold && strings.HasPrefix(point, "Send.after") {
		k.free()
	}
	k.mu.Unlock()
	if n == k.hold {
		_, _ = fmt.Fprintln(k.out, "held")
		<-k.held
	}
}

// kill returns only if this process is spared.
func (k *killer) kill() {
	if k.other != 0 {
		_ = syscall.Kill(k.other, syscall.SIGKILL)
	}
	if k.spare {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until the signal arrives
}
