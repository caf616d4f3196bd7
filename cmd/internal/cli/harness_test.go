package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"pawl.dev/cmd/internal/cli"
	"pawl.dev/cmd/internal/cli/admin"
	"pawl.dev/cmd/internal/clitest"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/cmd/suite"
	"pawl.dev/executor-svc/executor"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
)

// world is what one or more commands of a test work in: the services, the data folder, the person.
type world struct {
	env      map[string]string // what the UI reads of the environment
	t        *testing.T
	executor *clitest.Executor
	agents   *clitest.Agents // nil: there is no such service
	pool     *clitest.Pool
	tools    map[string][]*commonv1.Tool             // of the pool's servers
	held     map[string][]*mcppoolv1.QuarantinedTool // of the pool's servers
	unlisted func(id string) error                   // returns why the tools of a server cannot be listed; nil: all can
	planner  clitest.Registrar

	data    string
	signals chan os.Signal
	exited  chan int // codes with which the process was to exit at once
	tty     bool
	typed   io.Reader
	edit    func(context.Context, string) (string, error)
	browse  func(string) error
	newErr  error // of NewSuite
	broken  error // of standard output
	wd      string

	mu     sync.Mutex // guards what follows
	suites []*fakeSuite
}

var errLocked = fmt.Errorf("locked: %w", executor.ErrLocked)

func newWorld(t *testing.T) *world {
	t.Helper()
	for _, name := range []string{"PAWL_SERVER", "PAWL_POOL", "PAWL_PLANNER", "PAWL_KEY", "PAWL_CA", "PAWL_CLIENT_CERT", "PAWL_CLIENT_KEY", "PAWL_DATA", "PAWL_KEYS", "PAWL_CONFIG", "PAWL_LOG_LEVEL"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, wd: wd, executor: clitest.NewExecutor(), planner: clitest.Planner(t),
		data: t.TempDir(), signals: make(chan os.Signal, 4), exited: make(chan int, 4), typed: strings.NewReader(""),
	}
	t.Setenv("PAWL_DATA", w.data)
	w.register()
	return w
}

// register replaces the pool by one with these servers. Their tools are those of the world, so that their programs need not exist.
func (w *world) register(servers ...*mcppoolv1.McpServer) {
	w.t.Helper()
	pool := clitest.NewPool(w.t, servers...)
	clitest.On(pool.Script, func(req *mcppoolv1.ListToolsRequest, next func() (*mcppoolv1.ListToolsResponse, error)) (*mcppoolv1.ListToolsResponse, error) {
		id := req.GetMcpId()
		if pool.Server(id) == nil {
			return next()
		}
		if w.unlisted != nil {
			if err := w.unlisted(id); err != nil {
				return nil, err
			}
		}
		list := &mcppoolv1.ListToolsResponse{QuarantinedCount: uint32(len(w.held[id]))}
		if req.GetQuarantined() {
			list.QuarantinedTools = w.held[id]
		} else {
			list.Tools = w.tools[id]
		}
		return list, nil
	})
	w.pool = pool
}

// unavailable returns a function for world.unlisted that refuses one server.
func unavailable(server, why string) func(string) error {
	return func(id string) error {
		if id != server {
			return nil
		}
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, "%s", why)
	}
}

// wantsLogin is a function for world.unlisted that refuses every server.
func wantsLogin(id string) error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED, "MCP server %s requires a login", id)
}

// masks are the fields that each update of an agent named.
func masks(w *world) (list [][]string) {
	for _, req := range clitest.Sent[*executorv1.UpdateAgentRequest](w.agents.Script) {
		list = append(list, req.GetUpdateMask().GetPaths())
	}
	return list
}

// fakeSuite is what NewSuite builds: the world's services in this process.
type fakeSuite struct {
	conn    *inproc.Conn
	cfg     suite.Config
	started chan struct{}
	stopped chan struct{}
}

func (s *fakeSuite) Conn() grpc.ClientConnInterface { return s.conn }
func (s *fakeSuite) GRPCAddr() string               { return strings.Replace(s.cfg.GRPCAddr, ":0", ":4711", 1) }
func (s *fakeSuite) HTTPAddr() string               { return s.cfg.HTTPAddr }

func (s *fakeSuite) Run(ctx context.Context) error {
	close(s.started)
	<-ctx.Done()
	close(s.stopped)
	return nil
}

func (w *world) services() []clitest.Registrar {
	services := []clitest.Registrar{w.executor, w.pool, w.planner}
	if w.agents != nil {
		services = append(services, w.agents)
	}
	return services
}

func (w *world) newSuite(_ context.Context, cfg suite.Config, _ *slog.Logger) (admin.Suite, error) {
	if w.newErr != nil {
		return nil, w.newErr
	}
	unary, stream, err := serve.Interceptors(serve.Options{Auth: identity.Local(), Local: true})
	if err != nil {
		return nil, err
	}
	s := &fakeSuite{conn: inproc.New(unary, stream), cfg: cfg, started: make(chan struct{}), stopped: make(chan struct{})}
	for _, service := range w.services() {
		service.Register(s.conn)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.suites = append(w.suites, s)
	return s, nil
}

// serveElsewhere makes the world's services those of another process that has the data folder.
func (w *world) serveElsewhere() *clitest.Server {
	server := clitest.Serve(w.t, w.services()...)
	if err := discover.WriteServerFile(w.data, discover.ServerInfo{PID: os.Getpid(), GRPC: server.Addr}); err != nil {
		w.t.Fatal(err)
	}
	return server
}

// result of a command line.
type result struct {
	code     int
	out, err string
}

// output is a buffer that one goroutine writes and another waits on.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
	new chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.buf.Write(p)
	select {
	case o.new <- struct{}{}:
	default:
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// running is a command that has not ended.
type running struct {
	t        *testing.T
	out, err *output
	code     chan int
}

func (w *world) start(args ...string) *running {
	r := &running{t: w.t, out: &output{new: make(chan struct{}, 1)}, err: &output{new: make(chan struct{}, 1)}, code: make(chan int, 1)}
	app := &cli.App{
		UI: &ui.UI{
			In: w.typed, Out: w.stdout(r.out), Err: r.err, InTTY: w.tty, OutTTY: w.tty, ErrTTY: w.tty,
			Columns: func() int { return 80 }, Getenv: func(name string) string { return w.env[name] },
			Edit: w.edit, Browse: w.browse, Now: func() time.Time { return clitest.Epoch.Add(time.Hour) },
		},
		Host: admin.Host{
			Version: "v1.2.3", NewSuite: w.newSuite,
		},
		Signals: w.signals, Exit: func(code int) { w.exited <- code },
		Patience: 200 * time.Millisecond,
	}
	go func() { r.code <- app.Main(context.Background(), args) }()
	return r
}

// saw waits until standard error has the text.
func (r *running) saw(text string) {
	r.t.Helper()
	for !strings.Contains(r.err.String(), text) {
		select {
		case <-r.err.new:
		case code := <-r.code:
			r.t.Fatalf("it ended with %d before it said %q:\n%s", code, text, r.err.String())
		case <-time.After(10 * time.Second):
			r.t.Fatalf("it never said %q:\n%s", text, r.err.String())
		}
	}
}

// stdout returns out, or a writer that fails with broken if that is set.
func (w *world) stdout(out io.Writer) io.Writer {
	if w.broken == nil {
		return out
	}
	r, pipe := io.Pipe()
	_ = r.CloseWithError(w.broken)
	return pipe
}

func (r *running) wait() result {
	r.t.Helper()
	select {
	case code := <-r.code:
		return result{code, r.out.String(), r.err.String()}
	case <-time.After(20 * time.Second):
		r.t.Fatalf("it does not end:\n%s%s", r.out.String(), r.err.String())
		return result{}
	}
}

// pawl runs a command line to its end.
func (w *world) pawl(args ...string) result {
	w.t.Helper()
	return w.start(args...).wait()
}

// whole returns the result as golden files show it.
func (r result) whole() string {
	return "code " + string(rune('0'+r.code/10)) + string(rune('0'+r.code%10)) + "\n-- out\n" + r.out + "-- err\n" + r.err
}

// anyTime hides the times of a resource and the etag that depends on them.
func (r result) anyTime() result {
	r.out = regexp.MustCompile(`(Time|etag)": "[^"]*`).ReplaceAllString(r.out, `$1": "…`)
	return r
}

// expect checks a result: its code, and that standard output and error hold the texts.
func (r result) expect(t *testing.T, code int, out, err string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.out, out) || !strings.Contains(r.err, err) {
		t.Errorf("want code %d, out %q, err %q; got\n%s", code, out, err, r.whole())
	}
}

// chdir works in a fresh folder of a fixed name and returns its real path.
func chdir(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

// masked hides what differs from run to run.
func (w *world) masked(text string) string {
	text = strings.ReplaceAll(text, w.data, "DATA")
	return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "ADDR")
}

// golden compares a result with a file under testdata.
func (w *world) golden(name string, r result) {
	w.t.Helper()
	clitest.CheckIn(w.t, filepath.Join(w.wd, "testdata"), name, w.masked(r.whole()))
}
