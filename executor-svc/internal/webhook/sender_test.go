package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"pawl.dev/services/seal"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// post is a request that a receiver got.
type post struct {
	http.Header
	url, id, body string
	at            time.Time
}

// network has the receivers of a test instead of TCP connections.
type network struct {
	mu    sync.Mutex // guards posts and the office's tasks while the Sender works
	posts []post
	// answer answers a request; nil: it is accepted.
	answer func(req *http.Request, p post) (*http.Response, error)
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	p := post{req.Header, req.URL.String(), req.Header.Get("webhook-id"), string(body), time.Now()}
	n.mu.Lock()
	n.posts = append(n.posts, p)
	n.mu.Unlock()
	if n.answer == nil || err != nil {
		return status(http.StatusNoContent), err
	}
	return n.answer(req, p)
}

func status(code int, header ...string) *http.Response {
	r := &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// down is the answer of a host on which nothing listens.
func down(*http.Request, post) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

// office is a Sender with its journal and network, in a bubble of synctest.
type office struct {
	t *testing.T
	*Sender
	*network
	stop func()
	// tasks are the tasks of the events, in the order of the events.
	tasks []string
}

// inOffice runs a test with a running Sender.
func inOffice(t *testing.T, test func(t *testing.T, o *office)) {
	synctest.Test(t, func(t *testing.T) {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "journal"))
		if err != nil {
			t.Fatal(err)
		}
		box, err := seal.NewBox(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		n := &network{}
		o := &office{t: t, network: n, Sender: New(Deps{Journal: s, Secrets: Secrets{box}, Receivers: NewReceivers(nil, n), Log: slog.New(slog.DiscardHandler)})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			o.Run(ctx)
		}()
		o.stop = func() { cancel(); <-ended }
		defer func() {
			o.stop()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		test(t, o)
	})
}

// hook creates a webhook of the events that emit makes.
func (o *office) hook(url string) journal.WebhookRef {
	o.t.Helper()
	return o.hookOf("ann", url)
}

func (o *office) hookOf(user, url string) journal.WebhookRef {
	o.t.Helper()
	ref := journal.WebhookRef{User: user, ID: uuid.Must(uuid.NewV7()).String()}
	w := &storagev1.Webhook{Url: url, Rev: 1, EventTypes: []string{"task.text_add"}}
	o.Secrets.Add(ref, w, time.Now())
	if err := o.Journal.PutWebhook(o.t.Context(), ref, w, 0, 100); err != nil {
		o.t.Fatal(err)
	}
	return ref
}

// emit makes events, each of a task of its own.
func (o *office) emit(n int) {
	o.t.Helper()
	o.emitOf("ann", n)
}

func (o *office) emitOf(user string, n int) {
	o.t.Helper()
	for range n {
		task := journaltest.NewTask(user)
		task.Records[0].Time = time.Now().UnixNano()
		o.network.mu.Lock()
		o.tasks = append(o.tasks, task.ID)
		o.network.mu.Unlock()
		if _, _, err := o.Journal.Create(o.t.Context(), task); err != nil {
			o.t.Fatal(err)
		}
	}
}

// event returns which event a post has, from 0.
func (o *office) event(p post) int {
	o.network.mu.Lock()
	defer o.network.mu.Unlock()
	return slices.IndexFunc(o.tasks, func(id string) bool { return strings.Contains(p.body, id) })
}

// events returns which events the posts have.
func (o *office) events() (all []int) {
	o.network.mu.Lock()
	posts := slices.Clone(o.posts)
	o.network.mu.Unlock()
	for _, p := range posts {
		all = append(all, o.event(p))
	}
	return all
}

// numbers returns the numbers below n.
func numbers(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// deliveries returns the pending or failed deliveries of a webhook.
func (o *office) deliveries(ref journal.WebhookRef, failed bool) []journal.Delivery {
	o.t.Helper()
	ds, err := o.Journal.Deliveries(o.t.Context(), journal.DeliveryQuery{WebhookID: ref.ID, Failed: failed, Limit: 1000})
	if err != nil {
		o.t.Fatal(err)
	}
	return ds
}

func (o *office) wantNone(ref journal.WebhookRef) {
	o.t.Helper()
	if pending, failed := o.deliveries(ref, false), o.deliveries(ref, true); len(pending)+len(failed) > 0 {
		o.t.Errorf("pending %v, failed %v", pending, failed)
	}
}

// An event that the receiver does not accept is posted again with growing delays for 24 hours, always with the same id and body, and is a dead letter then.
// Delivered again, it keeps its id.
func TestRetries(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		o.answer = func(*http.Request, post) (*http.Response, error) { return status(http.StatusInternalServerError), nil }
		ref := o.hook("https://example.com/")
		o.emit(1)
		begin := time.Now()
		<-time.After(22 * time.Hour)
		synctest.Wait()
		if len(o.deliveries(ref, false)) != 1 {
			t.Fatalf("after 22 hours: failed %v", o.deliveries(ref, true))
		}
		<-time.After(26 * time.Hour)
		synctest.Wait()
		exact, base := 0, firstDelay
		for i, p := range o.posts[1:] {
			last := o.posts[i]
			got := p.at.Sub(last.at)
			if off := math.Abs(float64(got-base)) / float64(base); off > 0.2 {
				t.Errorf("attempt %d came after %v, want %v ± 20 %%", i+2, got, base)
			} else if off < 1e-6 {
				exact++
			}
			if p.id != last.id || p.body != last.body || p.Get("webhook-timestamp") == last.Get("webhook-timestamp") {
				t.Errorf("attempt %d: %v %s, before %v %s", i+2, p.Header, p.body, last.Header, last.body)
			}
			base = min(delayFactor*base, lastDelay)
		}
		if n := len(o.posts); n < 26 || n > 40 || exact > 2 || o.posts[n-1].at.Sub(begin) > giveUpAfter {
			t.Errorf("%d attempts, %d without jitter, the last one after %v", n, exact, o.posts[n-1].at.Sub(begin))
		}
		failed := o.deliveries(ref, true)
		if len(failed) != 1 || int(failed[0].GetAttempts()) != len(o.posts) || failed[0].GetHttpStatus() != 500 || len(o.deliveries(ref, false)) > 0 {
			t.Fatalf("failed %v", failed)
		}
		o.answer = nil
		if _, err := o.Redeliver(t.Context(), ref, failed[0].No); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if last := o.posts[len(o.posts)-1]; last.id != o.posts[0].id || last.body != o.posts[0].body || time.Since(last.at) > time.Second {
			t.Errorf("redelivered: %v at %v", last.Header, last.at)
		}
		o.wantNone(ref)
	})
}

// A redelivery that comes while an attempt is in flight is not lost when the attempt fails.
func TestRedeliverDuringAnAttempt(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		ref := o.hook("https://example.com/")
		var n atomic.Int32
		o.answer = func(*http.Request, post) (*http.Response, error) {
			if n.Add(1) > 1 {
				return status(http.StatusNoContent), nil
			}
			if _, err := o.Redeliver(t.Context(), ref, o.deliveries(ref, false)[0].No); err != nil {
				t.Error(err)
			}
			return status(http.StatusInternalServerError), nil
		}
		o.emit(1)
		begin := time.Now()
		synctest.Wait()
		if took := time.Since(begin); took > 0 || len(o.posts) != 2 {
			t.Errorf("%d posts took %v", len(o.posts), took)
		}
		o.wantNone(ref)
	})
}

// A host that is down for hours gets all events afterwards, in their order; the same after it answered 503.
func TestOrderAfterAnOutage(t *testing.T) {
	for name, answer := range map[string]func(*http.Request, post) (*http.Response, error){
		"nothing listens": down,
		"503":             func(*http.Request, post) (*http.Response, error) { return status(http.StatusServiceUnavailable), nil },
		"429":             func(*http.Request, post) (*http.Response, error) { return status(http.StatusTooManyRequests), nil },
	} {
		t.Run(name, func(t *testing.T) {
			inOffice(t, func(t *testing.T, o *office) {
				ref := o.hook("https://example.com/")
				o.emit(2)
				synctest.Wait()
				o.answer = answer
				for range 30 {
					o.emit(1)
					<-time.After(4 * time.Minute)
				}
				synctest.Wait()
				if pending := o.deliveries(ref, false); len(pending) != 30 {
					t.Fatalf("%d are pending", len(pending))
				}
				tried := len(o.posts) - 2
				o.answer, o.posts = nil, o.posts[:2]
				o.emit(200) // more than a page
				<-time.After(2 * lastPause)
				synctest.Wait()
				if got := o.events(); !slices.Equal(got, numbers(232)) {
					t.Errorf("the receiver got %v", got)
				}
				o.wantNone(ref)
				if tried > 150 {
					t.Errorf("%d attempts in two hours", tried)
				}
			})
		})
	}
}

// An event that failed because there was no connection is not overtaken, also if another event failed before.
func TestOrderAfterAnErrorAndAnOutage(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		var n atomic.Int32
		o.answer = func(req *http.Request, p post) (*http.Response, error) {
			switch n.Add(1) {
			case 1:
				return status(http.StatusInternalServerError), nil
			case 2:
				return down(req, p)
			}
			return status(http.StatusNoContent), nil
		}
		o.hook("https://receiver.example/")
		o.emit(4)
		<-time.After(time.Minute)
		synctest.Wait()
		if got := o.events(); !slices.Equal(got, []int{0, 1, 0, 1, 2, 3}) {
			t.Errorf("posts: %v", got)
		}
	})
}

// After a time in which the receiver answered 500, it gets everything within the longest pause, each event once.
func TestAfterErrors(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		ref := o.hook("https://example.com/")
		o.answer = func(*http.Request, post) (*http.Response, error) { return status(http.StatusInternalServerError), nil }
		for range 10 {
			o.emit(1)
			<-time.After(4 * time.Minute)
		}
		synctest.Wait()
		o.answer, o.posts = nil, nil
		o.emit(5)
		<-time.After(2 * lastPause)
		synctest.Wait()
		if got := o.events(); !slices.Equal(slices.Sorted(slices.Values(got)), numbers(15)) {
			t.Errorf("the receiver got %v", got)
		}
		o.wantNone(ref)
	})
}

// Events that a receiver never accepts do not hold up the others, which come in their order.
func TestEventsThatAreNeverAccepted(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		ref := o.hook("https://example.com/")
		const first, last = 2, 6 // of the bad ones
		var accepted []int
		o.answer = func(_ *http.Request, p post) (*http.Response, error) {
			i := o.event(p)
			if i >= first && i <= last {
				return status(http.StatusUnprocessableEntity), nil
			}
			accepted = append(accepted, i)
			return status(http.StatusOK), nil
		}
		o.emit(10)
		<-time.After(time.Minute)
		synctest.Wait()
		if want := slices.Delete(numbers(10), first, last+1); !slices.Equal(accepted, want) {
			t.Errorf("accepted %v, want %v", accepted, want)
		}
		<-time.After(giveUpAfter)
		synctest.Wait()
		if failed := o.deliveries(ref, true); len(failed) != last-first+1 || len(o.deliveries(ref, false)) > 0 {
			t.Errorf("failed %v, pending %v", failed, o.deliveries(ref, false))
		}
	})
}

// A receiver that asks for time gets it, up to an hour.
func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		code       int
		header     string
		from, till time.Duration
	}{
		{429, "120", 120 * time.Second, 121 * time.Second}, {503, "Sat, 01 Jan 2000 00:10:00 GMT", 9 * time.Minute, 11 * time.Minute},
		{429, "1000000", time.Hour, time.Hour + time.Second}, {429, "nonsense", 4 * time.Second, 6 * time.Second}, {429, "1", 4 * time.Second, 6 * time.Second},
		{500, "120", 4 * time.Second, 6 * time.Second},
	} {
		t.Run(fmt.Sprint(c.code, " ", c.header), func(t *testing.T) {
			inOffice(t, func(t *testing.T, o *office) {
				ref := o.hook("https://example.com/")
				o.answer = func(*http.Request, post) (*http.Response, error) {
					o.answer = nil
					return status(c.code, "Retry-After", c.header), nil
				}
				o.emit(1)
				<-time.After(2 * time.Hour)
				synctest.Wait()
				if len(o.posts) != 2 {
					t.Fatalf("%d posts", len(o.posts))
				}
				if got := o.posts[1].at.Sub(o.posts[0].at); got < c.from || got > c.till {
					t.Errorf("posted again after %v, want %v to %v", got, c.from, c.till)
				}
				o.wantNone(ref)
			})
		})
	}
}

// An attempt is given up after 15 seconds. A receiver that hangs delays no other, nor the end of the Sender.
func TestReceiverThatHangs(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		o.answer = func(req *http.Request, _ post) (*http.Response, error) {
			if req.URL.Host == "hangs.example" {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return status(http.StatusOK), nil
		}
		hangs, works := o.hook("https://hangs.example/"), o.hook("https://works.example/")
		begin := time.Now()
		o.emit(20)
		synctest.Wait()
		o.wantNone(works)
		if took := time.Since(begin); took > 0 || len(o.posts) != 21 {
			t.Errorf("%d posts took %v", len(o.posts), took)
		}
		<-time.After(timeout + time.Millisecond)
		synctest.Wait()
		if first := o.deliveries(hangs, false)[0]; first.GetAttempts() != 1 || !strings.Contains(first.GetError(), "15s") {
			t.Errorf("%v", first)
		}
		<-time.After(5 * time.Second) // in the next attempt
		synctest.Wait()
		before := o.deliveries(hangs, false)
		begin = time.Now()
		o.stop()
		after := o.deliveries(hangs, false)
		if took := time.Since(begin); took > 0 || len(after) != 20 || after[1].GetAttempts() != before[1].GetAttempts() {
			t.Errorf("it ended after %v; %v", took, after)
		}
	})
}

// The hanging receivers of a user, and tests of them, delay no event of another user.
func TestReceiversOfAUserThatHang(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		o.answer = func(req *http.Request, _ post) (*http.Response, error) {
			if req.URL.Host == "hangs.example" {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return status(http.StatusOK), nil
		}
		var ref journal.WebhookRef
		for range 20 {
			ref = o.hook("https://hangs.example/")
		}
		hook, err := o.Journal.Webhook(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		o.emit(1)
		var hanging sync.WaitGroup
		for range maxPosting {
			hanging.Go(func() { _, _ = o.Ping(t.Context(), ref, hook) })
		}
		synctest.Wait()
		begin, works := time.Now(), o.hookOf("bob", "https://works.example/")
		o.emitOf("bob", 3)
		synctest.Wait()
		if took := time.Since(begin); took > 0 || len(o.deliveries(works, false)) > 0 {
			t.Errorf("after %v: %v", took, o.deliveries(works, false))
		}
		hanging.Wait()
	})
}

// An event that failed because there was no connection is not overtaken, also if an older one fails afterwards for a reason of its own.
func TestOrderAfterTwoKindsOfFailures(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		var first, second string
		o.answer = func(req *http.Request, p post) (*http.Response, error) {
			switch { // by the number of posts
			case len(o.posts) == 1:
				first = p.id
			case p.id != first && second == "":
				second = p.id
				return down(req, p)
			}
			if p.id == first && len(o.posts) < 6 {
				return status(http.StatusInternalServerError), nil
			}
			return status(http.StatusOK), nil
		}
		ref := o.hook("https://works.example/")
		o.emit(4)
		time.Sleep(time.Hour) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		o.wantNone(ref)
		var newest string
		for _, p := range o.posts {
			if p.id != first && p.id < newest {
				t.Errorf("%s came after %s", p.id, newest)
			}
			newest = max(newest, p.id)
		}
	})
}

// The oldest events become dead letters if too many are pending, also those that were pending before the Sender started.
func TestTooManyArePending(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		var isDown atomic.Bool
		isDown.Store(true)
		o.answer = func(req *http.Request, p post) (*http.Response, error) {
			if isDown.Load() {
				return down(req, p)
			}
			return status(http.StatusOK), nil
		}
		o.maxPending = 50
		ref, other := o.hook("https://down.example/"), o.hookOf("bob", "https://down.example/")
		o.emitOf("bob", 50)
		o.emit(125)
		synctest.Wait()
		pending, failed := o.deliveries(ref, false), o.deliveries(ref, true)
		if len(pending) < 50 || len(pending) >= 55 || len(pending)+len(failed) != 125 || len(o.deliveries(other, false)) != 50 {
			t.Fatalf("%d are pending, %d failed; of another, %d are pending", len(pending), len(failed), len(o.deliveries(other, false)))
		}
		if first := failed[0]; first.No >= pending[0].No || first.GetError() != "50 newer events were pending" || first.GetNextTime() != 0 {
			t.Errorf("failed: %v", first)
		}
		o.maxPending = 40
		ctx, cancel := context.WithCancel(t.Context())
		o.stop()
		ended := make(chan struct{})
		go func() { defer close(ended); o.Run(ctx) }()
		o.stop = func() { cancel(); <-ended }
		synctest.Wait()
		if now := o.deliveries(ref, false); len(now) != 40 {
			t.Errorf("%d are pending after a restart", len(now))
		}
		isDown.Store(false)
		if _, err := o.Redeliver(t.Context(), ref, failed[len(failed)-1].No); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		for ref, want := range map[journal.WebhookRef]int{ref: 84, other: 10} {
			if left, failed := o.deliveries(ref, false), o.deliveries(ref, true); len(left) > 0 || len(failed) != want {
				t.Errorf("of %s, %d are pending, and %d failed", ref.User, len(left), len(failed))
			}
		}
	})
}

// 410 disables the webhook, whose deliveries are dead letters after 24 hours. A redirect is a failure and is not followed. Of an answer only the beginning is read.
func TestAnswers(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		read := &endless{}
		o.answer = func(req *http.Request, _ post) (*http.Response, error) {
			switch req.URL.Path {
			case "/gone":
				return status(http.StatusGone), nil
			case "/moved":
				return status(http.StatusPermanentRedirect, "Location", "https://elsewhere.example/"), nil
			}
			r := status(http.StatusOK)
			r.Body = read
			return r, nil
		}
		gone, moved, long := o.hook("https://example.com/gone"), o.hook("https://example.com/moved"), o.hook("https://example.com/long")
		o.emit(1)
		synctest.Wait()
		o.wantNone(long)
		if read.n > 64<<10 || !read.closed {
			t.Errorf("%d bytes were read; closed: %t", read.n, read.closed)
		}
		if d := o.deliveries(moved, false); len(d) != 1 || d[0].GetHttpStatus() != 308 || !strings.Contains(d[0].GetError(), "redirect") {
			t.Errorf("%v", d)
		}
		o.emit(1)
		<-time.After(48 * time.Hour)
		synctest.Wait()
		w, err := o.Journal.Webhook(t.Context(), gone)
		if err != nil || !w.GetDisabled() || !strings.Contains(w.GetDisabledReason(), "410") || len(o.deliveries(gone, true)) != 1 || len(o.deliveries(gone, false)) > 0 {
			t.Errorf("%v, %v; pending %v, failed %v", w, err, o.deliveries(gone, false), o.deliveries(gone, true))
		}
		gonePosts := 0
		for _, p := range o.posts {
			if p.url == "https://example.com/gone" {
				gonePosts++
			}
			if strings.Contains(p.url, "elsewhere") {
				t.Error("the redirect was followed")
			}
		}
		if gonePosts != 1 {
			t.Errorf("%d posts to the receiver that is gone", gonePosts)
		}
	})
}

// endless is a body without end.
type endless struct {
	n      int
	closed bool
}

func (e *endless) Read(b []byte) (int, error) {
	e.n += len(b)
	return len(b), nil
}

func (e *endless) Close() error {
	e.closed = true
	return nil
}

// For 24 hours after its rotation a secret signs beside the newer ones, also after further rotations; at most three replaced secrets do.
func TestRotation(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		ref := o.hook("https://example.com/")
		w, err := o.Journal.Webhook(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		first, err := o.Secrets.Newest(ref, w)
		if err != nil {
			t.Fatal(err)
		}
		secrets := []string{first} // the newest first
		for i, want := range []struct {
			rotate, signs int
			wait          time.Duration
		}{
			{1, 2, 0}, {0, 2, rotation - time.Minute}, {0, 1, 2 * time.Minute},
			{1, 2, 0}, {1, 3, rotation / 2}, {0, 2, rotation/2 + time.Minute}, {4, 4, 0}, {0, 1, rotation + time.Minute},
		} {
			<-time.After(want.wait)
			for range want.rotate {
				w.Rev++
				secrets = append([]string{o.Secrets.Add(ref, w, time.Now())}, secrets...)
				if err := o.Journal.PutWebhook(t.Context(), ref, w, w.GetRev()-1, 0); err != nil {
					t.Fatal(err)
				}
			}
			o.emit(1)
			synctest.Wait()
			p := o.posts[len(o.posts)-1]
			var signatures []string
			for _, secret := range secrets[:want.signs] {
				key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
				if err != nil {
					t.Fatal(err)
				}
				mac := hmac.New(sha256.New, key)
				fmt.Fprintf(mac, "%s.%d.%s", p.id, p.at.Unix(), p.body)
				signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
			}
			if got := p.Get("webhook-signature"); len(o.posts) != i+1 || got != strings.Join(signatures, " ") {
				t.Errorf("%d: %s, want %s", i, got, signatures)
			}
		}
	})
}

// What was pending when the executor ended is delivered after its start, in the order of the events and with the ids of before.
func TestPendingAfterAStart(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		ref := o.hook("https://example.com/")
		o.answer = down
		o.emit(3)
		synctest.Wait()
		o.stop()
		first := o.posts[0]
		o.answer, o.posts = nil, nil
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		next := New(o.Deps)
		go func() {
			defer close(ended)
			next.Run(ctx)
		}()
		<-time.After(10 * time.Second)
		synctest.Wait()
		if got := o.events(); !slices.Equal(got, numbers(3)) || o.posts[0].id != first.id || o.posts[0].body != first.body {
			t.Errorf("posted %v; before the start %v", o.posts, first)
		}
		o.wantNone(ref)
		cancel()
		<-ended
	})
}

// A name that leads to this machine is refused when it is dialled, and neither its address nor the URL's path is told.
func TestNameOfAPrivateAddress(t *testing.T) {
	reached := false
	web := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer web.Close()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	url := "https://localhost:" + port + "/secret-path"
	r := NewReceivers(nil, nil)
	if err := r.Check(url); err != nil {
		t.Errorf("a name is checked when it is dialled: %v", err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(nil))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.do(req)
	if err == nil {
		_ = resp.Body.Close()
		t.Fatal("the request was sent")
	}
	if text := describe(err); reached || !strings.Contains(text, "no public address") || strings.Contains(text, "127.0.0.1") || strings.Contains(text, "::1") || strings.Contains(text, "secret-path") {
		t.Errorf("reached: %t; %s", reached, text)
	}
}
