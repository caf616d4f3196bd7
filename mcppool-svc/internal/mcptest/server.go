package mcptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
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
	Good        = "good"
	Exit        = "exit"        // ends at once, with a message on stderr
	Silent      = "silent"      // answers nothing
	Rubbish     = "rubbish"     // writes lines that are not JSON
	Noisy       = "noisy"       // good, with a log line on stdout before each answer
	OldVersion  = "oldversion"  // speaks an unknown revision
	Modern      = "modern"      // knows no initialize
	UnreadStdin = "unreadstdin" // stops reading after the handshake
	Stubborn    = "stubborn"    // ignores SIGTERM and the end of stdin, as does its child
	Twins       = "twins"       // has two tools with the same name
	TwoKeys     = "twokeys"     // has a tool with `name` and `Name`
	WrongID     = "wrongid"     // answers calls under another id
	ListError   = "listerror"   // answers tools/list with an error
	LoopPages   = "looppages"   // returns the same cursor for ever
	Changed     = "changed"     // good, but the definition of info has changed
	Renamed     = "renamed"     // as changed, but info is called info2
	Empty       = "empty"       // has no tools
	Talkative   = "talkative"   // good, after many lines on stderr
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
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var m message
		if json.Unmarshal(line, &m) == nil {
			s.handle(m, nil)
		}
	}
	s.work.Wait()
	if mode == Stubborn {
		select {}
	}
	os.Exit(0)
}

type server struct {
	mode  string
	ended chan struct{} // closed by the tool drop
	work  sync.WaitGroup

	mu            sync.Mutex               // guards the fields below
	out           io.Writer                // takes one message with each Write
	heard         []string                 // the methods of the messages so far
	added         []string                 // tools that were added while running
	changed       bool                     // the definition of info has changed
	grown         bool                     // there is one more resource
	counted       int                      // calls of count and hold
	asked         int                      // requests to the client
	waiting       map[string]chan message  // receive the responses to these, by id
	cancelled     map[string]chan struct{} // closed when a call is cancelled, by request id
	held          []heldCall
	jobs          map[string]*job
	subscriptions map[string][]string // addresses, by the id of the stream or by the address itself
}

// heldCall is a call that waits to be released.
type heldCall struct {
	token    json.RawMessage
	released chan struct{}
}

func newServer(mode string, out io.Writer) *server {
	return &server{
		mode: mode, out: out, ended: make(chan struct{}), changed: mode == Changed || mode == Renamed, waiting: make(map[string]chan message),
		cancelled: make(map[string]chan struct{}), jobs: make(map[string]*job), subscriptions: make(map[string][]string),
	}
}

// begin does what the mode demands before the first message.
func (s *server) begin() {
	for path := os.Getenv(WaitVariable); path != ""; time.Sleep(time.Millisecond) { //nolint:forbidigo // another process says when
		if _, err := os.Stat(path); err == nil { //nolint:gosec // a test wrote it
			break
		}
	}
	switch s.mode {
	case Exit:
		fmt.Fprintln(os.Stderr, "fake: the database is missing, token", os.Getenv("SECRET_TOKEN"))
		os.Exit(3)
	case Talkative:
		for i := range 2000 {
			fmt.Fprintf(os.Stderr, "fake: line %d, token %s\n", i, os.Getenv("SECRET_TOKEN"))
		}
	case Rubbish:
		for {
			s.write("Welcome to this program!")
		}
	case Stubborn:
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		cmd := exec.Command(os.Args[0]) //nolint:gosec,noctx // this very test binary, which is to outlive its parent
		cmd.Env = []string{modeVariable + "=grandchild"}
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		s.added = append(s.added, "grandchild_"+strconv.Itoa(cmd.Process.Pid))
	}
}

// message is a JSON-RPC message from the client, with the parameters that any method takes.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name, URI, Cursor, TaskID, RequestState   string
		Arguments, Task, Notifications, RequestID json.RawMessage
		Argument                                  struct{ Value string }
		InputResponses                            map[string]json.RawMessage
		Meta                                      json.RawMessage `json:"_meta"`
	}
	Result, Error json.RawMessage // of the response to a request of the server
}

// outcome returns the result or error of a response as text.
func (m message) outcome() string {
	if len(m.Error) > 0 {
		return "refused: " + string(m.Error)
	}
	return string(m.Result)
}

// methods are the methods of all servers. Others are in offerMethods.
var methods = map[string]func(*request){
	"initialize": (*request).initialize, "server/discover": (*request).discover, "notifications/cancelled": (*request).cancel,
	"notifications/initialized": func(r *request) {
		if r.mode == UnreadStdin {
			select {}
		}
	},
	"tools/list": (*request).list, "tools/call": func(r *request) { r.work.Go(r.call) },
	"tasks/get": ofJob((*request).taskGet), "tasks/update": ofJob((*request).taskUpdate), "tasks/cancel": ofJob((*request).taskCancel),
	"tasks/result": ofJob(func(r *request, j *job) { r.work.Go(func() { r.taskResult(j) }) }),
}

// handle handles a message. It sends the response to answer, or writes it if answer is nil.
func (s *server) handle(m message, answer chan<- string) {
	if s.mode == Silent {
		return
	}
	if s.mode == Noisy {
		s.write("INFO handling " + m.Method)
	}
	if m.Method == "" {
		s.deliver(m)
		return
	}
	s.mu.Lock()
	s.heard = append(s.heard, m.Method)
	s.mu.Unlock()
	r, run := &request{server: s, message: m, answer: answer}, methods[m.Method]
	if s.offering() && run == nil {
		run = offerMethods[m.Method]
	}
	switch {
	case run != nil:
		run(r)
	case len(m.ID) > 0:
		r.unknownMethod()
	}
}

func (r *request) initialize() {
	version, known := map[string]string{OldVersion: "1999-01-01", Ancient: "2024-11-05"}[r.mode]
	if !known {
		version = "2025-11-25"
	}
	if r.modern() {
		r.unknownMethod()
		return
	}
	r.reply(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"fake","version":"1.0"}}`, version, r.capabilities()))
}

func (r *request) discover() {
	if !r.modern() {
		r.unknownMethod()
		return
	}
	r.reply(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + r.capabilities() +
		`,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"2.0"}}}`)
}

// modern reports whether the server speaks 2026-07-28.
func (s *server) modern() bool { return s.mode == Modern || s.mode == OfferingModern }

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

// cancel handles a cancellation of the client.
func (r *request) cancel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := string(r.Params.RequestID)
	delete(r.subscriptions, id)
	if ch, ok := r.cancelled[id]; ok {
		delete(r.cancelled, id)
		close(ch)
	}
}

// unknownMethod refuses a method; a server of 2024-11-05 ignores it.
func (r *request) unknownMethod() {
	if r.mode != Ancient {
		r.fail(-32601, "Method not found")
	}
}

func (s *server) notify(method, params string) {
	s.write(`{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`)
}

func (s *server) write(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw(line + "\n")
}

// raw writes a line or a part of one. Called with mu held.
func (s *server) raw(text string) {
	if _, err := io.WriteString(s.out, text); err != nil {
		os.Exit(1)
	}
}

// abort ends the calls that wait, and discards what the server still writes.
func (s *server) abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out, s.held = io.Discard, nil
	for _, ch := range s.cancelled {
		close(ch)
	}
	clear(s.cancelled)
	for _, ch := range s.waiting {
		close(ch)
	}
	clear(s.waiting)
}

// request is a message that the server handles.
type request struct {
	*server
	message
	answer chan<- string // receives the response; nil: the server writes it

	arguments struct { // of tools and prompts
		N                int
		URI, Method, Who string
		Params           json.RawMessage
	}
	token  json.RawMessage // for progress
	rounds [][]string      // the answers of the client in earlier rounds
	round  int             // of the questions that the tool asks next
}

func (r *request) reply(result string) {
	id := string(r.ID)
	if r.mode == WrongID && r.Method == "tools/call" {
		id = "987654"
	}
	r.respond(`{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`)
}

func (r *request) fail(code int, text string) {
	r.respond(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, r.ID, code, text))
}

// respond sends a response. The first one counts if the request takes only one.
func (r *request) respond(line string) {
	if r.answer == nil {
		r.write(line)
		return
	}
	select {
	case r.answer <- line:
	default:
	}
}

// text replies with the result of a tool that is a text.
func (r *request) text(text string) { r.reply(textResult(text)) }

func textResult(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return `{"content":[{"type":"text","text":` + string(b) + `}]}`
}

// progress notifies of the progress of the call with a token.
func (s *server) progress(token json.RawMessage, fields string, values ...any) {
	s.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,`+fields+`}`, append([]any{token}, values...)...))
}
