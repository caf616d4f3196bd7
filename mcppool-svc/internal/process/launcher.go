package process

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
)

// ErrClosed is returned by Start after Close.
var ErrClosed = errors.New("the launcher is closed")

// Launcher starts children from one thread that lives as long as it does. Linux ends a child when the thread that
// started it ends (PR_SET_PDEATHSIG), and Go ends threads when it likes; so children of other threads could die early.
type Launcher struct {
	starts chan start
	done   chan struct{}
	ended  chan struct{}
	stop   func() // closes done
}

type start struct {
	cmd    *exec.Cmd
	result chan error
}

// NewLauncher starts the thread; Close ends it.
func NewLauncher() *Launcher {
	l := &Launcher{starts: make(chan start), done: make(chan struct{}), ended: make(chan struct{})}
	l.stop = sync.OnceFunc(func() { close(l.done) })
	go l.run()
	return l
}

func (l *Launcher) run() {
	defer close(l.ended)
	// Never unlocked: the thread ends with the goroutine, and with it whatever child is left.
	runtime.LockOSThread()
	for {
		select {
		case s := <-l.starts:
			s.result <- s.cmd.Start()
		case <-l.done:
			return
		}
	}
}

// start runs cmd.Start on the launcher's thread.
func (l *Launcher) start(cmd *exec.Cmd) error {
	s := start{cmd: cmd, result: make(chan error, 1)}
	select {
	case l.starts <- s:
		return <-s.result
	case <-l.done:
		return ErrClosed
	}
}

// Close ends the thread. End the children first: those that are left are killed by the system, on Linux.
func (l *Launcher) Close() {
	l.stop()
	<-l.ended
}
