package mcp

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

const (
	landingPath = "/callback"
	// answerWithin is how long a browser waits for the result of its login.
	answerWithin = time.Minute
	closeWithin  = 2 * time.Second
)

// landing is a listener on this machine for the browser that comes back from a login (RFC 8252).
type landing struct {
	lis     net.Listener
	server  *http.Server
	state   string // of the login that is waited for
	came    atomic.Bool
	answers chan callback
}

// callback is the query that a browser brought; worked tells it how the login ended.
type callback struct {
	query  url.Values
	worked chan bool
}

// listenForBrowser opens a port of the system's choice on loopback. Close what it returns.
func listenForBrowser(ctx context.Context) (*landing, error) {
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the browser on this machine: %w", err)
	}
	p := &landing{lis: lis, answers: make(chan callback)}
	p.server = &http.Server{Handler: http.HandlerFunc(p.land), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	return p, nil
}

// address is where the browser is to be sent.
func (p *landing) address() string { return "http://" + p.lis.Addr().String() + landingPath }

// serve answers browsers. Another login than the one of this state is refused, and the right one still waited for.
func (p *landing) serve(state string) {
	p.state = state
	go func() { _ = p.server.Serve(p.lis) }() // it ends with close
}

// close ends the listener, once the browser has its answer.
func (p *landing) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	if errors.Is(p.server.Shutdown(ctx), context.DeadlineExceeded) {
		_ = p.server.Close()
	}
	_ = p.lis.Close() // if it was never served
}

func (p *landing) land(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Connection", "close")
	if r.Method != http.MethodGet || r.URL.Path != landingPath || r.Host != p.lis.Addr().String() {
		page(w, http.StatusNotFound, "There is nothing here.")
		return
	}
	q := r.URL.Query()
	if subtle.ConstantTimeCompare([]byte(p.state), []byte(q.Get("state"))) != 1 || p.came.Swap(true) { // a browser that comes twice is too late
		page(w, http.StatusBadRequest, "This is not the login that pawl waits for. It goes on waiting.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	a := callback{query: q, worked: make(chan bool, 1)}
	select {
	case p.answers <- a:
	case <-ctx.Done():
		return
	}
	select {
	case worked := <-a.worked:
		if !worked {
			page(w, http.StatusConflict, "You are not logged in. The terminal says why.")
			return
		}
		page(w, http.StatusOK, "You are logged in, and can close this page.")
	case <-ctx.Done():
	}
}

// page shows one fixed sentence.
func page(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<!doctype html><html lang=\"en\"><title>Pawl</title><p>%s</p></html>\n", text)
}
