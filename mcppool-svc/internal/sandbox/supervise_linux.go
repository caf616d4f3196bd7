package sandbox

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The argv[0] that make this executable a supervisor, and the process that becomes the program.
const (
	supervisorName = "pawl-sandbox"
	confinedName   = "pawl-sandboxed"
)

// order is what a supervisor reads from its control pipe, and outcome what it writes to its status pipe.
type (
	order struct {
		Command
		Isolated bool // the supervisor is in a network namespace of its own
	}
	outcome struct {
		Exit
		Err string // why the program did not start
	}
)

// The stages of a supervisor run here and not in a function that each main would call: in a program without that call, the supervisor would be a
// second instance of the program.
func init() {
	stage := map[string]func(in, status *os.File){supervisorName: supervise, confinedName: become}[os.Args[0]]
	if stage == nil {
		return
	}
	// Nothing passes to the program but its three streams, not even what this process inherited.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	stage(os.NewFile(3, "order"), os.NewFile(4, "status"))
	unix.Exit(0)
}

func run(ctx context.Context, c Command, out io.Writer) (Exit, error) {
	o := order{Command: c}
	o.Stdin = "" // passed by a pipe
	var attr *syscall.SysProcAttr
	if !c.Network {
		attr = isolation()
		o.Isolated = attr != nil
	}
	result, err := startSupervisor(ctx, attr, o, c, out)
	if err == nil && result.Err != "" {
		err = errors.New(result.Err)
	}
	return result.Exit, err
}

// startSupervisor runs a supervisor with an order and returns its outcome. The supervisor has an empty environment: variables of the program,
// such as LD_PRELOAD, must not act outside of the confinement.
func startSupervisor(ctx context.Context, attr *syscall.SysProcAttr, o order, c Command, out io.Writer) (outcome, error) {
	control, controlEnd, err := os.Pipe()
	if err != nil {
		return outcome{}, err
	}
	statusEnd, status, err := os.Pipe()
	if err != nil {
		return outcome{}, errors.Join(err, control.Close(), controlEnd.Close())
	}
	defer func() { _ = statusEnd.Close() }()
	hangUp := sync.OnceValue(controlEnd.Close)
	defer func() { _ = hangUp() }()

	cmd := newCmd(ctx, "/proc/self/exe", c, out)
	cmd.Args, cmd.Env, cmd.ExtraFiles, cmd.Cancel = []string{supervisorName}, []string{}, []*os.File{control, status}, hangUp
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if attr != nil {
		cmd.SysProcAttr = attr
	}
	err = cmd.Start()
	_, _ = control.Close(), status.Close()
	if err != nil {
		return outcome{}, err
	}
	// The supervisor may be gone already; its status tells.
	_ = gob.NewEncoder(controlEnd).Encode(o)
	if err := wait(cmd); err != nil {
		return outcome{}, err
	}
	var result outcome
	if err := gob.NewDecoder(statusEnd).Decode(&result); err != nil {
		return outcome{}, fmt.Errorf("its supervisor did not report how it ended (%s)", cmd.ProcessState)
	}
	return result, nil
}

// supervise runs the ordered program until it exits or control ends, kills what is left of it, and reports the outcome.
func supervise(control, status *os.File) {
	var o order
	var result outcome
	err := gob.NewDecoder(control).Decode(&o)
	if err == nil {
		result.Exit, err = o.run(control, status)
	}
	if err != nil {
		result.Err = err.Error()
	}
	_ = gob.NewEncoder(status).Encode(result)
}

func (o *order) run(control io.Reader, status *os.File) (Exit, error) {
	if o.Isolated {
		if err := loopbackUp(); err != nil {
			return Exit{}, fmt.Errorf("start the loopback interface: %w", err)
		}
	}
	if o.Path == "" { // see isolation
		return Exit{}, nil
	}
	ordered, orderedEnd, err := os.Pipe()
	err = errors.Join(err,
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0),
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}), // a core file would be written into the workspace
		os.Chdir(o.Dir),
	)
	if err != nil {
		return Exit{}, err
	}
	// Linux kills the program if this thread ends. It does not end before the process, because init runs on the main thread.
	pid, err := syscall.ForkExec("/proc/self/exe", []string{confinedName}, &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2, ordered.Fd(), status.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return Exit{}, err
	}
	_ = ordered.Close()
	_ = gob.NewEncoder(orderedEnd).Encode(o) // fails only if the process has ended, and then its exit tells
	go func() {
		_, _ = io.Copy(io.Discard, control)
		_ = unix.Kill(-pid, unix.SIGTERM)
		time.AfterFunc(grace, func() { _ = unix.Kill(-pid, unix.SIGKILL) })
	}()
	done, stopped := make(chan struct{}), make(chan string, 1)
	go func() { stopped <- o.watch(pid, done) }()
	exit := reap(pid)
	close(done)
	exit.Stopped = <-stopped
	killChildren()
	return exit, nil
}

// reap reaps children until the one with the given id has ended, and returns how it ended.
func reap(pid int) Exit {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR || err == nil && ended != pid:
		case err != nil:
			return Exit{Code: -1} // it has been reaped, which does not happen
		case status.Signaled():
			return Exit{Code: -1, Signal: unix.SignalName(status.Signal())}
		default:
			return Exit{Code: status.ExitStatus()}
		}
	}
}

// killChildren kills all children of this process, and their children, which become its own when their parents end. It signals only its own
// children, because the id of any other process may pass to a stranger.
func killChildren() {
	for {
		for _, p := range processes() {
			if p.parent == os.Getpid() {
				_ = unix.Kill(p.pid, unix.SIGKILL)
			}
		}
		_, err := unix.Wait4(-1, nil, 0, nil)
		for ended := 1; err == nil && ended > 0; {
			ended, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
		}
		if err == unix.ECHILD {
			return
		}
	}
}

// isolation returns the attributes that start a supervisor in a network namespace of its own, or nil if this process may not do that.
var isolation = sync.OnceValue(func() *syscall.SysProcAttr {
	own := []*syscall.SysProcAttr{
		{Setsid: true, Cloneflags: unix.CLONE_NEWNET},
		{
			Setsid: true, Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
			AmbientCaps: []uintptr{unix.CAP_NET_ADMIN}, // for loopbackUp
		},
	}
	for _, attr := range own {
		result, err := startSupervisor(context.Background(), attr, order{Isolated: true}, Command{}, io.Discard)
		if err == nil && result.Err == "" {
			return attr
		}
	}
	return nil
})

// loopbackUp starts the loopback interface of a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
