package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/mcppool-svc/internal/outbound"
)

// errNoStream means that an address is not one of the older HTTP transport.
var errNoStream = errors.New("the server offers no stream of events there")

// open opens the stream of the transport of 2024-11-05 (https://modelcontextprotocol.io/specification/2024-11-05/basic/transports): one GET stays
// open and brings all messages of the server as events; each of ours is a POST to the address that the first event names. ctx bounds the wait
// for that, not the stream's life.
func (t *web) open(ctx context.Context) error {
	stop := context.AfterFunc(ctx, t.client.finish)
	defer stop()
	resp, err := t.do(t.client.life, http.MethodGet, nil, nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return t.client.noAnswer(ctx)
	case err != nil:
		return networkError(err, false)
	case resp.StatusCode != http.StatusOK || mediaType(resp) != eventsType:
		defer discard(resp)
		e := Errorf(Protocol, "%w: it answered HTTP %s, %q", errNoStream, statusText(resp.StatusCode), cut(mediaType(resp)))
		if resp.StatusCode/100 != 2 {
			e = refused(resp.StatusCode, outbound.RetryAfter(resp.Header.Get("Retry-After"), time.Now()), nil)
			e.Err = errors.Join(errNoStream, e.Err)
		}
		e.Sent = false // no tool was called
		return e
	}
	named := make(chan string, 1)
	t.client.background(func() { t.read(resp, named) })
	select {
	case t.url = <-named:
		return nil
	case <-t.client.Done():
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return t.client.noAnswer(ctx)
	}
	e := *As(t.client.Err())
	e.Sent = false
	return &e
}

// read reads the stream until it ends, and with it the connection. named gets the address for our messages.
func (t *web) read(resp *http.Response, named chan<- string) {
	defer func() { _ = resp.Body.Close() }()
	events := jsonrpc.NewEventReader(resp.Body, t.client.limit, jsonrpc.MaxSkips)
	err := t.readEndpoint(events, resp.Request.URL, named)
	for err == nil {
		_, err = t.receive(events, nil)
	}
	if errors.Is(err, jsonrpc.ErrEndless) {
		err = endless(t.client.limit)
	}
	why := Find(err)
	if why == nil {
		reason := "the server closed it"
		if !errors.Is(err, io.EOF) {
			reason = cut(err.Error())
		}
		why = &Error{Kind: Unavailable, Sent: true, Lost: true, Err: err, Message: "the stream of the server's messages was lost: " + reason}
	}
	t.client.fail(why)
}

// readEndpoint reads events up to the one that names the address for our messages. It must have the server's origin: another one could be
// sent what is meant for the server.
func (*web) readEndpoint(events *jsonrpc.EventReader, from *url.URL, named chan<- string) error {
	for {
		e, err := events.Next()
		if err != nil {
			return err
		}
		if e.Name != "endpoint" {
			continue
		}
		endpoint, err := from.Parse(string(bytes.TrimSpace(e.Data)))
		if err != nil {
			return Errorf(Protocol, "the server names an address for messages that cannot be read: %w", err)
		}
		if !outbound.SameOrigin(endpoint, from) {
			return Errorf(AddressRefused, "the server at %s wants messages sent to %s; only its own origin is allowed", outbound.Place(from), outbound.Place(endpoint))
		}
		named <- endpoint.String()
		return nil
	}
}
