package mcpserver

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/gateway/internal/problem"
	"pawl.dev/gateway/internal/rest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/serve"
	"pawl.dev/services/strictjson"
)

// Path is where the servers of the caller are served as one; below it, each is served alone.
const Path = "/mcp"

// maxBody is the most bytes that a message may have: as many as the pool takes for a call.
const maxBody = 4456448

// modern is the revision without sessions; the others are older and begin with initialize. The newest is first.
const modern = "2026-07-28"

var revisions = []string{modern, "2025-11-25", "2025-06-18", batching}

const (
	batching = "2025-03-26" // the only revision with batches
	maxBatch = 100          // messages
)

// Config is the configuration of a Handler.
type Config struct {
	Pool, Executor, Planner grpc.ClientConnInterface
	// Receive checks the caller and reads the body; see rest.Handler.
	Receive   func(w http.ResponseWriter, r *http.Request, in rest.Incoming) (*http.Request, []byte, *serve.Holding, bool)
	Issuers   func() []string // the OpenID Connect issuers whose tokens the services accept; nil: none
	Heartbeat time.Duration   // between two comments on a stream
	Stopping  <-chan struct{} // closed when streams are to end
	Version   string          // of Pawl
	Log       *slog.Logger
}

// Handler serves MCP.
type Handler struct {
	cfg      Config
	pool     mcppoolv1.McpPoolServiceClient
	executor executorv1.ExecutorServiceClient
	planner  plannerv1.PlannerServiceClient
	signer   signer
	// acks are the acknowledgements of calls that run in the background.
	acks sync.WaitGroup
	// levels are the log levels that sessions have set.
	levels levels
	// calls are the requests of sessions that follow tasks, each a *taskCall, by call id.
	calls sync.Map
}

// New returns a handler.
func New(cfg Config) *Handler {
	return &Handler{
		cfg: cfg, pool: mcppoolv1.NewMcpPoolServiceClient(cfg.Pool), executor: executorv1.NewExecutorServiceClient(cfg.Executor),
		planner: plannerv1.NewPlannerServiceClient(cfg.Planner), signer: newSigner(),
	}
}

// Wait returns when requests to the pool that no client waits for have ended.
func (h *Handler) Wait() { h.acks.Wait() }

// ServeHTTP serves one message of a client, or a stream of notifications.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	server := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, Path), "/")
	if strings.Contains(server, "/") {
		problem.New(http.StatusNotFound, commonv1.ErrorReason_ERROR_REASON_ROUTE_NOT_FOUND, "there is no %s here; MCP servers are at /mcp/{server}, all of yours at /mcp", r.URL.Path).Write(w)
		return
	}
	mode := r.URL.Query().Get("mode")
	if mode != "" && mode != searchMode {
		problem.New(http.StatusBadRequest, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the mode %.40q is not known; leave it out, or use %s", mode, searchMode).Write(w)
		return
	}
	allowed := []string{http.MethodPost}
	if r.Header.Get("Mcp-Protocol-Version") != modern {
		allowed = []string{http.MethodGet, http.MethodPost}
	}
	if !slices.Contains(allowed, r.Method) {
		problem.MethodNotAllowed(w, r, allowed...)
		return
	}
	var user string
	r, body, held, ok := h.cfg.Receive(w, r, rest.Incoming{Conn: h.cfg.Pool, MaxBody: maxBody, Streams: true, User: &user, Fail: func(w http.ResponseWriter, err error) { refuse(w, r, err) }})
	if !ok {
		return
	}
	defer held.Release()
	q := &request{Handler: h, Request: r, User: user, Body: body, server: server, search: mode == searchMode, out: &output{w: w, acceptsStream: accepts(r, "text/event-stream")}}
	if r.Method == http.MethodGet {
		q.serveNotifications()
		return
	}
	if err := q.serve(); err != nil {
		q.fail(err)
	}
}

// accepts reports whether the client takes a media type. A client that does not say is asked for nothing else.
func accepts(r *http.Request, mediaType string) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return strings.Contains(accept, mediaType) || strings.Contains(accept, "*/*")
}

// request is one message and its response.
type request struct {
	*Handler
	*http.Request
	User   string
	Body   []byte
	server string // empty: all
	search bool   // tools are searched for instead of listed
	message
	meta   fields // of the params
	state  string // params.requestState
	inputs fields // params.inputResponses
	client client
	modern bool
	out    *output
}

// fail answers with an error.
func (q *request) fail(err error) {
	e := errorOf(err)
	if e.status == http.StatusUnauthorized && !q.out.streaming && !q.out.batch {
		refuse(q.out.w, q.Request, err)
		return
	}
	if q.modern && e.Code == resourceNotFound {
		e.Code = invalidParams
	}
	status := e.status
	switch {
	case status != 0:
	case q.modern && e.Code == methodNotFound:
		status = http.StatusNotFound
	case q.modern && e.Code != internalError, q.id == nil:
		status = http.StatusBadRequest
	default:
		status = http.StatusOK
	}
	q.out.end(status, errorResponse(q.id, e))
}

// serve answers a message or a batch.
func (q *request) serve() error {
	body := q.Body
	q.Body = nil // the messages refer to what they need
	if err := strictjson.Check(body, strictjson.Rules{MaxDepth: strictjson.Wire.MaxDepth}); err != nil {
		return errorf(parseError, "the body is not JSON: %v", err).with(http.StatusBadRequest)
	}
	if strictjson.Kind(body) == "array" {
		return q.serveBatch(body)
	}
	return q.serveMessage(body)
}

// serveMessage answers one message.
func (q *request) serveMessage(text []byte) error {
	var err *rpcError
	if q.message, err = parse(text); err != nil {
		return err.with(http.StatusBadRequest)
	}
	q.meta, q.state, q.inputs = q.params.object("_meta"), q.params.text("requestState"), q.params.object("inputResponses")
	if err := q.identify(); err != nil {
		return err
	}
	if q.id == nil || q.method == "" {
		return q.take()
	}
	serve := methods[q.method]
	if serve.do == nil || strings.HasPrefix(q.method, "tasks/") && q.server != "" || q.modern && serve.until || !q.modern && serve.since {
		return errorf(methodNotFound, "the method %.100q is not known here", q.method)
	}
	return serve.do(q)
}

// serveBatch answers the messages of a batch one after another. Only 2025-03-26 has batches; it is also the revision of a client that names none.
func (q *request) serveBatch(body []byte) error {
	if err := q.identify(); err != nil {
		return err
	}
	messages := slices.Collect(strictjson.Items(body))
	switch {
	case q.modern || cmp.Or(q.client.Revision, q.Header.Get("Mcp-Protocol-Version"), batching) != batching:
		return errorf(invalidRequest, "the body is a batch, which only the revision %s has; send one message per request", batching).with(http.StatusBadRequest)
	case len(messages) == 0 || len(messages) > maxBatch:
		return errorf(invalidRequest, "the batch has %d messages; send 1 to %d", len(messages), maxBatch).with(http.StatusBadRequest)
	}
	q.out.batch = true
	for _, text := range messages {
		one := *q
		if err := one.serveMessage(text); err != nil {
			one.fail(err)
		}
	}
	q.out.endBatch()
	return nil
}

// method is a method of MCP.
type method struct {
	do    func(*request) error
	until bool // it has ended with sessions
	since bool // it came when sessions ended
}

var methods map[string]method

func init() { //nolint:gochecknoinits // the methods refer to the table
	methods = map[string]method{
		"initialize":       {do: (*request).initialize, until: true},
		"ping":             {do: (*request).empty, until: true},
		"logging/setLevel": {do: (*request).setLevel, until: true},

		"server/discover":      {do: (*request).discover, since: true},
		"subscriptions/listen": {do: (*request).listen, since: true},

		"tools/list":               {do: toolList.serve},
		"tools/call":               {do: (*request).callTool},
		"resources/list":           {do: resourceList.serve},
		"resources/templates/list": {do: templateList.serve},
		"resources/read":           {do: (*request).readResource},
		"prompts/list":             {do: promptList.serve},
		"prompts/get":              {do: (*request).getPrompt},
		"completion/complete":      {do: (*request).complete},

		"tasks/get":    {do: (*request).taskStatus},
		"tasks/cancel": {do: (*request).endTask},
		"tasks/result": {do: (*request).taskResult, until: true},
		"tasks/list":   {do: (*request).taskList, until: true},
		"tasks/update": {do: (*request).updateTask, since: true},
	}
}

// identify finds out the revision and the client's capabilities: from the request since 2026-07-28, else from the session.
func (q *request) identify() error {
	header, stated := q.Header.Get("Mcp-Protocol-Version"), q.meta.text("io.modelcontextprotocol/protocolVersion")
	q.modern = header == modern || stated != ""
	if !q.modern && header != "" && !slices.Contains(revisions, header) {
		q.modern = q.method != "initialize"
	}
	if q.method == "server/discover" {
		q.modern = true
	}
	q.client.User = q.User
	if q.modern {
		return q.identifyModern(header, stated)
	}
	token := q.Header.Get("Mcp-Session-Id")
	if token == "" || q.method == "initialize" {
		return nil // without a session, the server asks its client for nothing
	}
	var c client
	if !q.signer.open(sessionToken, token, &c) || c.User != q.User {
		return errorf(invalidRequest, "the session is not known here; begin a new one with initialize").with(http.StatusNotFound)
	}
	q.client = c
	return nil
}

func (q *request) identifyModern(header, stated string) error {
	capabilities := q.meta.object("io.modelcontextprotocol/clientCapabilities")
	switch {
	case q.id == nil && stated == "": // a notification needs no _meta
		return nil
	case stated == "" && header != modern && q.method != "server/discover":
		return unknownRevision(header)
	case stated == "":
		return errorf(invalidParams, "params._meta has no io.modelcontextprotocol/protocolVersion")
	case header != stated:
		return errorf(headerMismatch, "the header Mcp-Protocol-Version is %.40q, and the body says %.40q", header, stated)
	case stated != modern:
		return unknownRevision(stated)
	case capabilities == nil && q.id != nil:
		return errorf(invalidParams, "params._meta has no io.modelcontextprotocol/clientCapabilities")
	}
	q.client.setCapabilities(capabilities)
	return q.checkHeaders()
}

// checkHeaders checks that the headers name the method and its object.
func (q *request) checkHeaders() error {
	if got := q.Header.Get("Mcp-Method"); got != q.method && q.id != nil {
		return errorf(headerMismatch, "the header Mcp-Method is %.100q, and the method is %.100q", got, q.method)
	}
	key := map[string]string{
		"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
	}[q.method]
	if key == "" || !q.params.has(key) {
		return nil
	}
	got := strings.TrimSpace(q.Header.Get("Mcp-Name"))
	if encoded, ok := strings.CutPrefix(got, "=?base64?"); ok && strings.HasSuffix(encoded, "?=") {
		if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "?=")); err == nil {
			got = string(decoded)
		}
	}
	if got != q.params.text(key) {
		return errorf(headerMismatch, "the header Mcp-Name is %.100q, and params.%s is not", got, key)
	}
	return nil
}

// setCapabilities reads whether the client can ask its user, and whether it knows MCP tasks.
func (c *client) setCapabilities(capabilities fields) {
	c.Tasks = capabilities.object("extensions").has(tasksExtension)
	if !capabilities.has("elicitation") {
		return
	}
	modes := capabilities.object("elicitation")
	c.URLs = modes.has("url")
	c.Forms = modes.has("form") || !c.URLs
}

// take handles a message that gets no response.
func (q *request) take() error {
	var err error
	switch q.method {
	case "":
		err = q.takeAnswer()
	case "notifications/cancelled":
		q.cancel()
	}
	if err != nil {
		return err
	}
	if !q.out.batch {
		q.out.w.WriteHeader(http.StatusAccepted)
	}
	return nil
}

// empty answers with an empty result.
func (q *request) empty() error { return q.reply("{}") }

// reply answers with a result.
func (q *request) reply(result string) error {
	if q.modern {
		if _, ok := strictjson.Member(result, "resultType"); !ok {
			result = extend(result, `"resultType":"complete"`)
		}
	}
	q.out.end(http.StatusOK, response(q.id, result))
	return nil
}

// initialize begins a session. Nothing is kept of it here: its id holds what it needs.
func (q *request) initialize() error {
	if q.out.batch {
		return errorf(invalidRequest, "initialize cannot be part of a batch")
	}
	revision := q.params.text("protocolVersion")
	if revision == modern || !slices.Contains(revisions, revision) {
		revision = revisions[1]
	}
	capabilities, err := q.capabilities()
	if err != nil {
		return err
	}
	c := client{User: q.User, Revision: revision, Nonce: rand.Text()}
	if c.Revision != batching {
		c.setCapabilities(q.params.object("capabilities"))
	}
	c.URLs = c.URLs && c.Revision == revisions[1]
	if c.Revision == revisions[1] && q.server == "" {
		capabilities["tasks"] = map[string]any{"list": struct{}{}, "cancel": struct{}{}, "requests": map[string]any{"tools": map[string]any{"call": struct{}{}}}}
	}
	q.out.w.Header().Set("Mcp-Session-Id", q.signer.sign(sessionToken, c))
	return q.reply(quote(map[string]any{"protocolVersion": revision, "capabilities": capabilities, "serverInfo": q.info()}))
}

// discover describes the server.
func (q *request) discover() error {
	capabilities, err := q.capabilities()
	if err != nil {
		return err
	}
	if q.server == "" {
		capabilities["extensions"] = map[string]any{tasksExtension: struct{}{}}
	}
	return q.reply(quote(map[string]any{
		"supportedVersions": revisions, "capabilities": capabilities, "ttlMs": ttl.Milliseconds(), "cacheScope": "private",
		"_meta": map[string]any{"io.modelcontextprotocol/serverInfo": q.info()},
	}))
}

func (q *request) info() map[string]string {
	name := "pawl"
	if q.server != "" {
		name += "/" + q.server
	}
	return map[string]string{"name": name, "version": q.cfg.Version}
}

// capabilities returns the capabilities of the server, which is connected for that.
func (q *request) capabilities() (map[string]any, error) {
	changes := map[string]bool{"listChanged": true}
	all := map[string]any{"tools": changes, "resources": struct{}{}, "prompts": struct{}{}, "completions": struct{}{}, "logging": struct{}{}}
	if q.server == "" {
		return all, nil
	}
	ctx := q.Context()
	if _, err := q.pool.ListTools(ctx, &mcppoolv1.ListToolsRequest{McpId: q.server, PageSize: 1}); err != nil {
		return nil, q.notServed(err)
	}
	server, err := q.pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: q.server})
	if err != nil {
		return nil, q.notServed(err)
	}
	for name := range all {
		if name != "tools" && !slices.Contains(server.GetCapabilities(), name) {
			delete(all, name)
		}
	}
	if slices.Contains(server.GetCapabilities(), "resource_subscriptions") && q.modern {
		all["resources"] = map[string]bool{"subscribe": true}
	}
	return all, nil
}

// notServed makes the error of a server that the caller does not see a 404, as for any address that leads nowhere.
func (q *request) notServed(err error) error {
	e := errorOf(err)
	if e.reason == commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND {
		e.status = http.StatusNotFound
	}
	return e
}

// setLevel sets the least severe log messages that a session gets.
func (q *request) setLevel() error {
	level := q.params.text("level")
	if severity(level) < 0 {
		return errorf(invalidParams, "params.level is none of %s", strings.Join(severities, ", "))
	}
	if q.client.Nonce != "" {
		q.levels.set(q.client.Nonce, level)
	}
	return q.empty()
}

var severities = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func severity(level string) int { return slices.Index(severities, level) }

// maxLevels bounds the sessions whose log level is kept; the oldest lose theirs.
const maxLevels = 4096

// levels holds log levels by session.
type levels struct {
	mu    sync.Mutex
	of    map[string]string
	order []string // sessions, the oldest first
}

func (l *levels) set(session, level string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]string{}
	}
	if _, known := l.of[session]; !known {
		if len(l.order) == maxLevels {
			delete(l.of, l.order[0])
			l.order = append(l.order[:0], l.order[1:]...)
		}
		l.order = append(l.order, session)
	}
	l.of[session] = level
}

func (l *levels) get(session string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[session]
}
