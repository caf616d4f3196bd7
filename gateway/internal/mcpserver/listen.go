package mcpserver

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// maxSubscriptions bounds the resources of one stream.
const maxSubscriptions = 100

// serveNotifications answers GET, in revisions with sessions: a stream of notifications that belong to no request.
func (q *request) serveNotifications() {
	if err := q.identify(); err != nil {
		q.fail(err)
		return
	}
	if !q.out.open() {
		q.fail(errorf(invalidRequest, "the client does not accept text/event-stream").with(http.StatusNotAcceptable))
		return
	}
	q.out.beat()
	q.notify(true, nil, nil)
}

// listen streams the notifications that the client asks for.
func (q *request) listen() error {
	filter := q.params.object("notifications")
	accepted := map[string]any{}
	tools := string(filter["toolsListChanged"]) == "true"
	if tools {
		accepted["toolsListChanged"] = true
	}
	var uris []string
	if q.server != "" && strictjson.Kind(filter["resourceSubscriptions"]) == "array" {
		_ = json.Unmarshal(filter["resourceSubscriptions"], &uris) // others than strings are not accepted
	}
	if len(uris) > maxSubscriptions {
		return errorf(invalidParams, "a stream has at most %d resources", maxSubscriptions)
	}
	if len(uris) > 0 {
		accepted["resourceSubscriptions"] = uris
	}
	if !q.out.open() {
		return errorf(invalidRequest, "the client does not accept text/event-stream")
	}
	meta := map[string]any{"io.modelcontextprotocol/subscriptionId": q.id}
	q.out.send(notification("", "notifications/subscriptions/acknowledged", map[string]any{"notifications": accepted, "_meta": meta}))
	q.notify(tools, uris, meta)
	return nil
}

// notify sends notifications until the client is gone or the gateway stops. Tools are watched if so asked, and resources by their URIs.
func (q *request) notify(tools bool, uris []string, meta map[string]any) {
	ctx, cancel := context.WithCancel(q.Context())
	changes := make(chan []byte)
	var watchers sync.WaitGroup
	defer func() { cancel(); watchers.Wait() }()
	params := func(with map[string]any) map[string]any {
		if meta != nil {
			with["_meta"] = meta
		}
		return with
	}
	tell := func(method string, with map[string]any) {
		select {
		case changes <- notification("", method, params(with)):
		case <-ctx.Done():
		}
	}
	if tools {
		watchers.Go(func() {
			q.watchTools(ctx, func() { tell("notifications/tools/list_changed", map[string]any{}) })
			cancel() // the caller's key was removed, or the server
		})
	}
	for _, uri := range uris {
		watchers.Go(func() {
			q.watchResource(ctx, uri, func() { tell("notifications/resources/updated", map[string]any{"uri": uri}) })
		})
	}
	beat := time.NewTicker(q.cfg.Heartbeat)
	defer beat.Stop()
	for q.out.err == nil {
		select {
		case change := <-changes:
			q.out.send(change)
		case <-beat.C:
			q.out.beat()
		case <-ctx.Done():
			return
		case <-q.cfg.Stopping:
			return
		}
	}
}

// again is how long a watcher waits before it asks again a pool that has ended its stream.
const again = 2 * time.Second

// watchTools calls changed after each change of the tools, until ctx ends.
func (q *request) watchTools(ctx context.Context, changed func()) {
	seen := map[string]seenServer{}
	for first := true; ctx.Err() == nil; first = false {
		if !first && !wait(ctx, again) {
			return
		}
		req := &mcppoolv1.WatchMcpServersRequest{}
		if q.server != "" {
			req.Ids = []string{q.server}
		}
		stream, err := q.pool.WatchMcpServers(ctx, req)
		for err == nil {
			var event *mcppoolv1.WatchMcpServersResponse
			if event, err = stream.Recv(); err == nil && note(seen, event) {
				changed()
			}
		}
		if code := errs.From(err).Code; code == codes.Unauthenticated || code == codes.PermissionDenied || errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND {
			return
		}
	}
}

// seenServer is what the tools of a server depend on, as last seen.
type seenServer struct {
	version uint64
	etag    string
	usable  bool
}

// note records the state of a server and reports whether its tools may have changed. The first state of a server is no change.
func note(seen map[string]seenServer, event *mcppoolv1.WatchMcpServersResponse) bool {
	s := event.GetMcpServer()
	now := seenServer{event.GetToolsVersion(), s.GetEtag(), !event.GetRemoved() && s.GetActive() && !s.GetDisabled()}
	before, known := seen[s.GetId()]
	if now.version == 0 && before.etag == now.etag {
		now.version = before.version // a connection that was closed has no version
	}
	seen[s.GetId()] = now
	return known && now != before && (before.version != 0 || now.etag != before.etag || now.usable != before.usable)
}

// watchResource calls changed after each change of a resource, until ctx ends or the resource cannot be watched.
func (q *request) watchResource(ctx context.Context, uri string, changed func()) {
	stream, err := q.pool.SubscribeResource(ctx, &mcppoolv1.SubscribeResourceRequest{McpId: q.server, Uri: uri})
	for err == nil {
		var event *mcppoolv1.SubscribeResourceResponse
		if event, err = stream.Recv(); err == nil && event.GetChanges() > 0 {
			changed()
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
