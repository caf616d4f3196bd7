package mcp

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	landingPath = "/callback"
	// sayWithin is how long a browser waits for the result of its login.
	sayWithin = time.Minute
	closeTime = 2 * time.Second
)

// landing is a listener on this machine for the browser that comes back from a login (RFC 8252).
type landing struct {
	lis     net.Listener
	server  *http.Server
	ended   chan struct{} // closed once the server has ended
	answers chan callback

	mu    sync.Mutex
	state string // guarded by mu; the login that is waited for
}

// callback is what a browser brought; Say tells it how the login ended.
type callback struct {
	Query url.Values
	said  chan bool
}

// Say ends the browser's wait.
func (a callback) Say(worked bool) { a.said <- worked }

// listenForBrowser opens a port of the system's choice on loopback. Close what it returns.
func listenForBrowser(ctx context.Context) (*landing, error) {
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the browser on this machine: %w", err)
	}
	p := &landing{lis: lis, ended: make(chan struct{}), answers: make(chan callback)}
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() {
		defer close(p.ended)
		_ = p.server.Serve(lis) // it ends with Close
	}()
	return p, nil
}

// Address is where the browser is to be sent.
func (p *landing) Address() string { return "http://" + p.lis.Addr().String() + landingPath }

// Expect says which login is waited for. Call it before the browser can come.
func (p *landing) Expect(state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
}

// Wait returns what the browser brought for the login; what comes for another one is refused, and waited on.
func (p *landing) Wait(ctx context.Context) (callback, error) {
	select {
	case a := <-p.answers:
		return a, nil
	case <-ctx.Done():
		return callback{}, ctx.Err()
	}
}

// Close ends the listener, once what it said has been heard.
func (p *landing) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := p.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = p.server.Close()
	}
	<-p.ended
	return err
}

func (p *landing) serve(w http.ResponseWriter, r *http.Request) {
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
	if !p.waitsFor(q.Get("state")) {
		page(w, http.StatusBadRequest, "This is not the login that pawl waits for. It goes on waiting.")
		return
	}
	a := callback{Query: q, said: make(chan bool, 1)}
	ctx, cancel := context.WithTimeout(r.Context(), sayWithin)
	defer cancel()
	select {
	case p.answers <- a:
	case <-ctx.Done():
		return
	}
	select {
	case worked := <-a.said:
		if !worked {
			page(w, http.StatusConflict, "You are not logged in. The terminal says why.")
			return
		}
		page(w, http.StatusOK, "You are logged in, and can close this page.")
	case <-ctx.Done():
	}
}

// waitsFor says whether a login is the one that is waited for, and takes it: a browser that comes twice is too late.
func (p *landing) waitsFor(state string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == "" || subtle.ConstantTimeCompare([]byte(p.state), []byte(state)) != 1 {
		return false
	}
	p.state = ""
	return true
}

// page shows one fixed sentence.
func page(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<!doctype html><html lang=\"en\"><title>Pawl</title><p>%s</p></html>\n", text)
}
