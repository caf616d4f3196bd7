package mcptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"pawl.dev/mcppool-svc/internal/registry"
)

// modeVariable is the environment variable with the mode; it makes a test binary the server.
const modeVariable = "PAWL_FAKE_MCP"

// WaitVariable is the environment variable with the path of a file. The server answers nothing until the file exists.
const WaitVariable = "PAWL_FAKE_MCP_WAIT"

// The modes of a server.
const (
	Good       = "good"
	Exit       = "exit"       // ends at once, with a message on stderr
	Silent     = "silent"     // answers nothing
	Rubbish    = "rubbish"    // writes lines that are not JSON
	Noisy      = "noisy"      // good, with a log line on stdout before each answer
	OldVersion = "oldversion" // speaks an unknown revision
	Modern     = "modern"     // knows no initialize
	Deaf       = "deaf"       // stops reading after the handshake
	Stubborn   = "stubborn"   // ignores SIGTERM and the end of stdin, as does its child
	Twins      = "twins"      // has two tools with the same name
	TwoKeys    = "twokeys"    // has a tool with `name` and `Name`
	WrongID    = "wrongid"    // answers calls under another id
	ListError  = "listerror"  // answers tools/list with an error
	LoopPages  = "looppages"  // returns the same cursor for ever
	Changed    = "changed"    // good, but the definition of info has changed
	Renamed    = "renamed"    // as changed, but info is called info2
	Empty      = "empty"      // has no tools
	Talkative  = "talkative"  // good, after many lines on stderr
)

// Stdio returns the registration of a server that is this test binary.
func Stdio(mode string) *registry.Stdio {
	self, err := os.Executable()
	if err != nil {
		panic(err) // a test binary knows its path
	}
	// The race detector would sleep for a second when the process ends.
	return &registry.Stdio{Command: self, Env: map[string]string{modeVariable: mode, "GORACE": "atexit_sleep_ms=0"}}
}

// Main runs the server and ends the process if the process was started as a server.
func Main() {
	mode := os.Getenv(modeVariable)
	if mode == "" {
		return
	}
	if mode == "grandchild" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		select {}
	}
	s := newServer(mode, os.Stdout)
	s.begin()
	s.serve(os.Stdin)
	if mode == Stubborn {
		select {}
	}
	os.Exit(0)
}

func newServer(mode string, out io.Writer) *server {
	return &server{
		mode: mode, out: out, version: "2025-11-25", cancelled: make(map[string]chan struct{}),
		waiting: make(map[string]chan message), jobs: make(map[string]*job),
	}
}

// message is a JSON-RPC message from the client.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"` // of the response to a request of the server
	Error  json.RawMessage `json:"error"`
}

type server struct {
	mode    string
	version string

	mu        sync.Mutex
	out       io.Writer                // guarded by mu
	tools     []string                 // guarded by mu; added while running
	changed   string                   // guarded by mu; the changed definition of info; empty if unchanged
	cancelled map[string]chan struct{} // guarded by mu; closed when a call is cancelled; by request id
	held      []held                   // guarded by mu
	counted   int                      // guarded by mu
	asked     int                      // guarded by mu
	waiting   map[string]chan message  // guarded by mu; receive the responses to the server's requests, by id
	jobs      map[string]*job          // guarded by mu
	work      sync.WaitGroup
	offers    offers
}

// held is a call that waits to be released.
type held struct {
	token    json.RawMessage
	released chan struct{}
}

func (s *server) begin() {
	for path := os.Getenv(WaitVariable); path != ""; time.Sleep(time.Millisecond) { //nolint:forbidigo // another process says when
		if _, err := os.Stat(path); err == nil { //nolint:gosec // a test wrote it
			break
		}
	}
	switch s.mode {
	case Changed:
		s.changed = ChangedInfo
	case Renamed:
		s.changed = strings.Replace(ChangedInfo, "info", "info2", 1)
	case Exit:
		fmt.Fprintln(os.Stderr, "fake: the database is missing, token", os.Getenv("SECRET_TOKEN"))
		os.Exit(3)
	case Talkative:
		for i := range 2000 {
			fmt.Fprintf(os.Stderr, "fake: line %d, token %s\n", i, os.Getenv("SECRET_TOKEN"))
		}
	case Rubbish:
		for {
			if _, err := fmt.Println("Welcome to this program!"); err != nil {
				os.Exit(1)
			}
		}
	case OldVersion:
		s.version = "1999-01-01"
	case Ancient:
		s.version = "2024-11-05"
	case Stubborn:
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		cmd := exec.Command(os.Args[0]) //nolint:gosec,noctx // this very test binary, which is to outlive its parent
		cmd.Env = []string{modeVariable + "=grandchild"}
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		s.tools = append(s.tools, "grandchild_"+strconv.Itoa(cmd.Process.Pid))
	}
}

func (s *server) serve(in io.Reader) {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			s.work.Wait()
			return
		}
		var m message
		if json.Unmarshal(line, &m) == nil {
			s.handle(m)
		}
	}
}

func (s *server) handle(m message) {
	if s.mode == Silent {
		return
	}
	if s.mode == Noisy {
		s.write("INFO handling " + m.Method)
	}
	if s.hear(m) {
		return
	}
	switch m.Method {
	case "initialize":
		if s.mode == Modern || s.mode == OfferingModern {
			s.fail(m, -32601, "Method not found")
			return
		}
		s.reply(m, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"fake","version":"1.0"}}`, s.version, s.capabilities()))
	case "server/discover":
		s.discover(m)
	case "notifications/initialized":
		if s.mode == Deaf {
			select {}
		}
	case "notifications/cancelled":
		s.cancel(m)
	case "tools/list":
		s.list(m)
	case "tools/call":
		s.work.Go(func() { s.call(m) })
	default:
		if !s.tasks(m) && !s.offer(m) && len(m.ID) > 0 {
			s.fail(m, -32601, "Method not found")
		}
	}
}

// discover answers server/discover.
func (s *server) discover(m message) {
	switch s.mode {
	case Ancient: // ignored
	case Modern, OfferingModern:
		s.reply(m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+s.capabilities()+
			`,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"2.0"}}}`)
	default:
		s.fail(m, -32601, "Method not found")
	}
}

func (s *server) capabilities() string {
	switch {
	case s.offering():
		return offeringCapabilities
	case s.mode == Modern:
		return `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	default:
		return `{"tools":{"listChanged":true},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`
	}
}

func (s *server) list(m message) {
	switch s.mode {
	case ListError:
		s.fail(m, -32603, "the index is broken")
		return
	case Twins:
		s.reply(m, `{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"a","inputSchema":{"type":"object"}}]}`)
		return
	case TwoKeys:
		s.reply(m, `{"tools":[{"name":"safe","Name":"evil","inputSchema":{"type":"object"}}]}`)
		return
	case ManyTools:
		s.reply(m, many())
		return
	case FarRef:
		s.reply(m, farRef(os.Getenv("FAR_REF")))
		return
	case Empty:
		s.reply(m, `{"tools":[]}`)
		return
	case LoopPages:
		s.reply(m, `{"tools":[],"nextCursor":"again"}`)
		return
	}
	// Two pages, so that reading only the first is noticed.
	if !strings.Contains(string(m.Params), `"cursor":"2"`) {
		s.reply(m, `{"tools":[`+strings.Join(s.definitions(), ",")+`],"nextCursor":"2"}`)
		return
	}
	s.mu.Lock()
	more := []string{`{"name":"last","inputSchema":{"type":"object"}}`}
	for _, name := range s.more() {
		more = append(more, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	s.mu.Unlock()
	s.reply(m, `{"tools":[`+strings.Join(more, ",")+`]}`)
}

// more returns the names of the tools of the second page. Called with mu held.
func (s *server) more() []string {
	if s.offering() {
		return slices.Concat(offerDefinitions, s.tools)
	}
	return s.tools
}

// cancel handles a cancellation of the client.
func (s *server) cancel(m message) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(m.Params, &p)
	s.unlisten(p.RequestID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch, ok := s.cancelled[string(p.RequestID)]; ok {
		delete(s.cancelled, string(p.RequestID))
		close(ch)
	}
}

func (s *server) reply(m message, result string) {
	id := string(m.ID)
	if s.mode == WrongID && m.Method == "tools/call" {
		id = "987654"
	}
	s.write(`{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`)
}

func (s *server) fail(m message, code int, text string) {
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text))
}

func (s *server) notify(method, params string) {
	s.write(`{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`)
}

func (s *server) write(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := io.WriteString(s.out, line+"\n"); err != nil {
		os.Exit(1)
	}
}
