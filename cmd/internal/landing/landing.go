// Package landing waits on this machine for a browser that comes back from a login (RFC 8252). It knows only the shape of
// what browsers bring, and shows nothing of it.
package landing

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
	path = "/callback"
	// sayWithin is how long a browser waits to hear what came of its login.
	sayWithin = time.Minute
	closeTime = 2 * time.Second
)

// Page is a listener that one browser is to come to.
type Page struct {
	lis     net.Listener
	server  *http.Server
	ended   chan struct{} // closed once the server has ended
	answers chan Answer

	mu    sync.Mutex
	state string // guarded by mu; the login that is waited for
}

// Answer is what a browser brought; Say tells it what came of it.
type Answer struct {
	Query url.Values
	said  chan bool
}

// Say ends the browser's wait.
func (a Answer) Say(worked bool) { a.said <- worked }

// Listen opens a port of the system's choice on loopback. Close what it returns.
func Listen(ctx context.Context) (*Page, error) {
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the browser on this machine: %w", err)
	}
	p := &Page{lis: lis, ended: make(chan struct{}), answers: make(chan Answer)}
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() {
		defer close(p.ended)
		_ = p.server.Serve(lis) // it ends with Close
	}()
	return p, nil
}

// Address is where the browser is to be sent.
func (p *Page) Address() string { return "http://" + p.lis.Addr().String() + path }

// Expect says which login is waited for. Call it before anybody can come.
func (p *Page) Expect(state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
}

// Wait returns what the browser brought for the login; what comes for another one is refused, and waited on.
func (p *Page) Wait(ctx context.Context) (Answer, error) {
	select {
	case a := <-p.answers:
		return a, nil
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

// Close ends the listener, once what it said has been heard.
func (p *Page) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := p.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = p.server.Close()
	}
	<-p.ended
	return err
}

func (p *Page) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Connection", "close")
	if r.Method != http.MethodGet || r.URL.Path != path || r.Host != p.lis.Addr().String() {
		say(w, http.StatusNotFound, "There is nothing here.")
		return
	}
	q := r.URL.Query()
	if !p.waitsFor(q.Get("state")) {
		say(w, http.StatusBadRequest, "This is not the login that pawl waits for. It goes on waiting.")
		return
	}
	a := Answer{Query: q, said: make(chan bool, 1)}
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
			say(w, http.StatusConflict, "You are not logged in. The terminal says why.")
			return
		}
		say(w, http.StatusOK, "You are logged in, and can close this page.")
	case <-ctx.Done():
	}
}

// waitsFor says whether a login is the one that is waited for, and takes it: a browser that comes twice is too late.
func (p *Page) waitsFor(state string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == "" || subtle.ConstantTimeCompare([]byte(p.state), []byte(state)) != 1 {
		return false
	}
	p.state = ""
	return true
}

// say shows one fixed sentence.
func say(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<!doctype html><html lang=\"en\"><title>Pawl</title><p>%s</p></html>\n", text)
}
