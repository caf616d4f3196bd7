package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// How long Close waits before it says the same thing louder, counted from its beginning.
const (
	termAfter = 1 * time.Second // stdin is closed; then SIGTERM
	killAfter = 2 * time.Second // then SIGKILL
	// drainTime is how long output of a child that has exited is waited for: a grandchild may hold the pipe open.
	drainTime = 500 * time.Millisecond
)

// Limits bound each process of a child's group; 0: as the pool's own.
type Limits struct {
	Memory uint64 // bytes that it can write to, beside what it shares
	Files  uint64 // open files, sockets and pipes
}

// None reports whether there are no limits.
func (l Limits) None() bool { return l == Limits{} }

// Spec says what to run.
type Spec struct {
	Command string
	Args    []string
	Env     []string // the whole environment
	Dir     string   // the pool's own if empty
	Limits  Limits
}

// Process is a running child.
type Process struct {
	Stdin  *os.File // the caller writes and closes it
	Stdout *os.File // the caller reads it; it ends shortly after the child does

	cmd    *exec.Cmd
	stderr ring
	exited chan struct{}
	drop   func() // closes our ends of stdout and stderr
	close  func() // ends the group
}

// Start starts a child. The error says what to correct.
func (l *Launcher) Start(spec Spec) (*Process, error) {
	path, _ := Getenv(spec.Env, "PATH")
	command, err := Find(spec.Command, path, spec.Dir)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: command, Args: append([]string{spec.Command}, spec.Args...),
		Env: spec.Env, Dir: spec.Dir, SysProcAttr: groupAttr(),
	}
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	p.close = sync.OnceFunc(p.end)
	stderr, theirs, err := p.pipes()
	if err != nil {
		return nil, fmt.Errorf("opening pipes: %w", err)
	}
	err = l.start(cmd)
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		_ = p.Stdin.Close()
		p.drop()
		return nil, fmt.Errorf("starting %s: %w", command, err)
	}
	err = limit(p.PID(), spec.Limits) // before it is reaped: until then no other process has its id
	go p.wait(stderr)
	if err != nil {
		killGroup(cmd.Process)
		p.Close()
		return nil, err
	}
	return p, nil
}

// pipes connects the child's three streams; it returns our end of stderr and the child's ends, to be closed once it runs.
func (p *Process) pipes() (stderr *os.File, theirs []*os.File, err error) {
	var files []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			return nil, nil, err
		}
		files = append(files, r, w)
	}
	stdinR, stdout, stderr := files[0], files[2], files[4]
	p.Stdin, p.Stdout = files[1], stdout
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdinR, files[3], files[5]
	p.drop = sync.OnceFunc(func() { _, _ = stdout.Close(), stderr.Close() })
	return stderr, []*os.File{stdinR, files[3], files[5]}, nil
}

// wait reaps the child at once, ends what is left of its group, and lets its last words arrive.
func (p *Process) wait(stderr *os.File) {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		// A buffer of 32 KiB, as io.Copy has, would be most of what an idle connection takes.
		_, _ = io.CopyBuffer(&p.stderr, struct{ io.Reader }{stderr}, make([]byte, 2<<10))
	}()
	awaitExit(p.PID())
	_ = p.cmd.Wait() // the exit status is in ProcessState
	killGroup(p.cmd.Process)
	timer := time.AfterFunc(drainTime, p.drop)
	<-drained
	timer.Stop()
	close(p.exited)
	// Stdout is the caller's to read to its end; a grandchild that left the group must not keep it open for ever.
	time.AfterFunc(drainTime, p.drop)
}

// PID is the child's process id, which is its group's too.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed once the child has exited and was reaped.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Status says how the child ended: `exit status 3`, `signal: killed`; only after Exited.
func (p *Process) Status() string { return p.cmd.ProcessState.String() }

// Stderr returns the end of what the child wrote to stderr, at most limit bytes of it.
func (p *Process) Stderr(limit int) string {
	text := strings.TrimSpace(strings.ToValidUTF8(p.stderr.String(), "\uFFFD"))
	if len(text) > limit {
		text = "…" + strings.ToValidUTF8(text[len(text)-limit:], "")
	}
	return text
}

// StderrLog returns all that is kept of what the child wrote to stderr, and whether more was dropped before it.
func (p *Process) StderrLog() (text string, cut bool) {
	return strings.ToValidUTF8(p.stderr.String(), "\uFFFD"), p.stderr.wasCut()
}

// Close ends the child and its whole group, first politely, and returns when it is gone. It takes a little more than two
// seconds at most, and may be called again.
func (p *Process) Close() { p.close() }

func (p *Process) end() {
	_ = p.Stdin.Close() // a polite server takes this as the end
	if p.exitsWithin(termAfter) {
		return
	}
	terminateGroup(p.cmd.Process)
	if p.exitsWithin(killAfter - termAfter) {
		return
	}
	killGroup(p.cmd.Process)
	// A killed process ends at once, except in uninterruptible I/O.
	p.exitsWithin(killAfter)
}

func (p *Process) exitsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// stderrLimit is how much of a child's stderr is kept.
const stderrLimit = 64 << 10

// ring keeps the last bytes written to it.
type ring struct {
	mu  sync.Mutex
	buf []byte // guarded by mu
	cut bool   // guarded by mu; something was dropped
}

// Write never fails and never blocks for long, so that a child cannot hang on its stderr.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	r.cut = r.cut || len(r.buf)+n > stderrLimit
	p = p[max(0, n-stderrLimit):]
	if drop := len(r.buf) + len(p) - stderrLimit; drop > 0 {
		r.buf = append(r.buf[:0], r.buf[drop:]...)
	}
	r.buf = append(r.buf, p...)
	return n, nil
}

func (r *ring) wasCut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut
}

func (r *ring) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.buf)
}

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
