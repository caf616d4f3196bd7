package crash

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"pawl.dev/services/serve"
)

// startTimeout bounds how long a process may take until it serves.
const startTimeout = 20 * time.Second

// process is a victim.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	addr  string
	conn  *grpc.ClientConn
	took  time.Duration // until it served
	held  chan struct{} // closed when it is held at a point
	armed chan struct{} // closed when it has received arm's command
	done  chan struct{} // closed when it has ended and was reaped

	mu     sync.Mutex // guards the fields below
	points []string
	begin  int // how many points there were when it was armed
	errors bytes.Buffer
}

// start starts a victim in a process group of its own and returns once it serves.
func start(env []string, args ...string) (*process, error) {
	began := time.Now()
	p := &process{held: make(chan struct{}), armed: make(chan struct{}), done: make(chan struct{})}
	p.cmd = exec.Command(programs.victim, args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = (*locked)(p)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	serving := make(chan string, 1)
	go p.read(stdout, serving)
	select {
	case p.addr = <-serving:
	case <-p.done:
		return nil, fmt.Errorf("%v ended before it served: %s", p.cmd.Args, p.said())
	case <-time.After(startTimeout):
		p.kill()
		return nil, fmt.Errorf("%v does not serve: %s", p.cmd.Args, p.said())
	}
	p.took = time.Since(began)
	p.conn, err = serve.Dial(p.addr, "")
	return p, err
}

// locked keeps the end of a process's standard error.
type locked process

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errors.Len() > 64<<10 {
		l.errors.Reset()
	}
	return l.errors.Write(b)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errors.String()
}

func (p *process) read(stdout io.Reader, serving chan<- string) {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "serving":
			serving <- rest
		case "held":
			close(p.held)
		case "armed":
			p.mu.Lock()
			p.begin = len(p.points)
			p.mu.Unlock()
			close(p.armed)
		case "point":
			_, name, _ := strings.Cut(rest, " ")
			p.mu.Lock()
			p.points = append(p.points, name)
			p.mu.Unlock()
		}
	}
	_ = p.cmd.Wait()
	close(p.done)
}

// reached returns the points that it has reached.
func (p *process) reached() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.points...)
}

// arm makes the process die at the nth point from now on; 0: at none.
func (p *process) arm(ctx context.Context, n int) error {
	if _, err := fmt.Fprintf(p.stdin, "die %d\n", n); err != nil {
		return err
	}
	select {
	case <-p.armed:
		return nil
	case <-p.done:
		return fmt.Errorf("it has ended: %s", p.said())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reachedArmed returns the points that it has reached since it was armed.
func (p *process) reachedArmed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.points[p.begin:])
}

// letGo lets a process that is held go on.
func (p *process) letGo() { _, _ = io.WriteString(p.stdin, "\n") }

// kill ends it as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// keeper keeps a victim running: if it dies it is started again, without the settings that killed it.
type keeper struct {
	args []string

	mu      sync.Mutex // guards the fields below
	now     *process
	count   int // of starts
	news    chan struct{}
	stopped bool
	failed  error
	// again is when it was last started again, and slowest how long that took at most.
	again   time.Time
	slowest time.Duration
	gone    sync.WaitGroup
}

// keep starts a victim. Only its first process gets env.
func keep(env []string, args ...string) (*keeper, error) {
	k := &keeper{args: args, news: make(chan struct{})}
	p, err := start(env, args...)
	if err != nil {
		return nil, err
	}
	k.publish(p, nil)
	k.gone.Go(k.supervise)
	return k, nil
}

func (k *keeper) publish(p *process, err error) (goOn bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.failed = err
	} else {
		k.now = p
		k.count++
		if k.count > 1 {
			k.again = time.Now().Add(-p.took)
			k.slowest = max(k.slowest, p.took)
		}
	}
	close(k.news)
	k.news = make(chan struct{})
	return !k.stopped && err == nil
}

func (k *keeper) supervise() {
	for p := k.now; ; {
		<-p.done
		_ = p.conn.Close()
		k.mu.Lock()
		stopped := k.stopped
		k.mu.Unlock()
		if stopped {
			return
		}
		next, err := start(nil, k.args...)
		if !k.publish(next, err) {
			if next != nil {
				next.kill()
			}
			return
		}
		p = next
	}
}

// after waits until more than n processes were started, and returns the newest and its number, from 1.
func (k *keeper) after(ctx context.Context, n int) (*process, int, error) {
	for {
		k.mu.Lock()
		p, count, news, err := k.now, k.count, k.news, k.failed
		k.mu.Unlock()
		if err != nil || count > n {
			return p, count, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, 0, fmt.Errorf("process %d is not followed by another one: %w; it came to %v and said:\n%s", n, ctx.Err(), p.reached(), p.said())
		}
	}
}

func (k *keeper) current() *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

// restarts returns how often it was started again, when last, and how long that took at most.
func (k *keeper) restarts() (n int, last time.Time, slowest time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.count - 1, k.again, k.slowest
}

// stop kills the victim, which is not started again.
func (k *keeper) stop() {
	k.mu.Lock()
	k.stopped = true
	p := k.now
	k.mu.Unlock()
	_ = p.cmd.Process.Kill()
	k.gone.Wait()
}
