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

const (
	// Close closes stdin first. It sends SIGTERM after termAfter and SIGKILL after killAfter, counted from its beginning.
	termAfter = 1 * time.Second
	killAfter = 2 * time.Second
	// drainTime is how long to wait for more output of a child that has exited: a grandchild may hold the pipe open.
	drainTime = 500 * time.Millisecond
)

// Limits bound each process of a child's group; 0: the pool's own limit.
type Limits struct {
	Memory uint64 // bytes of private writable memory (RLIMIT_DATA)
	Files  uint64 // open files, sockets and pipes
}

// None reports whether there are no limits.
func (l Limits) None() bool { return l == Limits{} }

// Spec describes the program to run.
type Spec struct {
	Command string
	Args    []string
	Env     []string // the whole environment
	Dir     string   // the pool's own if empty
	Account *Account // nil: the pool's own
	Limits  Limits
}

// Process is a running child.
type Process struct {
	Stdin  *os.File // the caller writes to it and closes it
	Stdout *os.File // the caller reads it; it ends shortly after the child does

	cmd        *exec.Cmd
	stderr     ring
	exited     chan struct{}
	closePipes func() // closes the pool's ends of stdout and stderr
	close      func() // calls end once
}

// Start starts a child. The error tells what to correct.
func (l *Launcher) Start(spec Spec) (*Process, error) {
	path, _ := Getenv(spec.Env, "PATH")
	command, err := Find(spec.Command, path, spec.Dir)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: command, Args: append([]string{spec.Command}, spec.Args...),
		Env: spec.Env, Dir: spec.Dir, SysProcAttr: attrOf(spec.Account),
	}
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	p.close = sync.OnceFunc(p.end)
	stderr, childEnds, err := p.pipes()
	if err != nil {
		return nil, fmt.Errorf("opening pipes: %w", err)
	}
	err = l.start(cmd)
	for _, f := range childEnds {
		_ = f.Close()
	}
	if err != nil {
		_ = p.Stdin.Close()
		p.closePipes()
		if spec.Account != nil {
			err = fmt.Errorf("as user %s: %w; the pool must run as root, or with CAP_SETUID, CAP_SETGID and CAP_KILL, and that user be able to run the "+
				"program and to enter its working directory", spec.Account.name, err)
		}
		return nil, fmt.Errorf("starting %s: %w", command, err)
	}
	err = limit(p.PID(), spec.Limits) // before wait reaps the child: until then no other process has its id
	go p.wait(stderr)
	if spec.Account != nil && err != nil {
		err = fmt.Errorf("%w; limits on programs of other users require CAP_SYS_RESOURCE", err)
		if spec.Limits.None() {
			err = nil // only core files, which are that user's
		}
	}
	if err != nil {
		KillGroup(cmd.Process)
		p.Close()
		return nil, err
	}
	return p, nil
}

// pipes makes the pipes of the child's three streams. It returns the pool's end of stderr, and the child's ends, which the caller closes once
// the child runs.
func (p *Process) pipes() (stderr *os.File, childEnds []*os.File, err error) {
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
	p.closePipes = sync.OnceFunc(func() { _, _ = stdout.Close(), stderr.Close() })
	return stderr, []*os.File{stdinR, files[3], files[5]}, nil
}

// wait reaps the child as soon as it exits, kills the rest of its group, and reads the end of stderr.
func (p *Process) wait(stderr *os.File) {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		// The 32 KiB buffer of io.Copy would be most of the memory of an idle connection.
		_, _ = io.CopyBuffer(&p.stderr, struct{ io.Reader }{stderr}, make([]byte, 2<<10))
	}()
	awaitExit(p.PID())
	_ = p.cmd.Wait() // the exit status is in ProcessState
	KillGroup(p.cmd.Process)
	timer := time.AfterFunc(drainTime, p.closePipes)
	<-drained
	timer.Stop()
	close(p.exited)
	// The caller reads stdout to its end. A grandchild that left the group must not keep it open for ever.
	time.AfterFunc(drainTime, p.closePipes)
}

// PID returns the id of the child's process and of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed once the child was reaped and its stderr was read.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Status returns how the child ended, such as `exit status 3` or `signal: killed`. Call it only once Exited is closed.
func (p *Process) Status() string { return p.cmd.ProcessState.String() }

// Stderr returns the end of the child's stderr, at most limit bytes of it.
func (p *Process) Stderr(limit int) string {
	text := strings.TrimSpace(strings.ToValidUTF8(p.stderr.String(), "\uFFFD"))
	if len(text) > limit {
		text = "…" + strings.ToValidUTF8(text[len(text)-limit:], "")
	}
	return text
}

// StderrLog returns the part of the child's stderr that is kept, and whether an earlier part was dropped.
func (p *Process) StderrLog() (text string, cut bool) {
	return strings.ToValidUTF8(p.stderr.String(), "\uFFFD"), p.stderr.wasCut()
}

// Close ends the child and its group, and returns when the child has ended, usually within two seconds. It may be called again.
func (p *Process) Close() { p.close() }

func (p *Process) end() {
	_ = p.Stdin.Close() // MCP servers should exit now
	if p.exitsWithin(termAfter) {
		return
	}
	TerminateGroup(p.cmd.Process)
	if p.exitsWithin(killAfter - termAfter) {
		return
	}
	KillGroup(p.cmd.Process)
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

// stderrLimit is how many bytes of a child's stderr are kept.
const stderrLimit = 64 << 10

// ring keeps the last bytes written to it.
type ring struct {
	mu  sync.Mutex
	buf []byte // guarded by mu
	cut bool   // guarded by mu; earlier bytes were dropped
}

// Write never fails and does not block, so that a child never waits for its stderr to be read.
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

// Launcher starts children from one thread that lives as long as the Launcher. Linux kills a child when the thread that started it ends
// (PR_SET_PDEATHSIG), and Go may end its other threads at any time.
type Launcher struct {
	starts chan start
	done   chan struct{}
	ended  chan struct{}
	stop   func() // closes done
}

// start is a request to start a command.
type start struct {
	cmd    *exec.Cmd
	result chan error
}

// NewLauncher starts a Launcher's thread. Close ends it. Descriptors that this process has inherited are not passed on to children.
func NewLauncher() *Launcher {
	closeOnExec()
	l := &Launcher{starts: make(chan start), done: make(chan struct{}), ended: make(chan struct{})}
	l.stop = sync.OnceFunc(func() { close(l.done) })
	go l.run()
	return l
}

func (l *Launcher) run() {
	defer close(l.ended)
	// Never unlocked, so that the thread ends with the goroutine.
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

// start calls cmd.Start on the launcher's thread.
func (l *Launcher) start(cmd *exec.Cmd) error {
	s := start{cmd: cmd, result: make(chan error, 1)}
	select {
	case l.starts <- s:
		return <-s.result
	case <-l.done:
		return ErrClosed
	}
}

// Close ends the thread. Close the processes first: Linux kills those that are left.
func (l *Launcher) Close() {
	l.stop()
	<-l.ended
}
