package test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/identity/identitytest"

	"pawl.dev/test/rig"
)

// withIssuer starts four processes that accept a provider besides keys, with that clock skew.
func withIssuer(t *testing.T, skew string) (target *rig.Target, p *identitytest.Provider, file string) {
	t.Helper()
	p = identitytest.NewProvider(t)
	file = identitytest.File(t, "issuers:\n"+p.Entry("  clock_skew: "+skew+"\n"))
	path, key := keys(t)
	return rig.FourProcesses(t, binaries, rig.Options{
		Issuers: file, Keys: path, ServiceKey: key("executor", identity.RoleService), Workspace: workspace(t),
	}), p, file
}

// services returns the processes that authenticate callers.
func services(target *rig.Target) []*grpc.ClientConn {
	return []*grpc.ClientConn{target.Executor, target.Pool, target.Planner}
}

// whoAmI asks a process who the bearer of a token is.
func whoAmI(ctx context.Context, t *testing.T, conn *grpc.ClientConn, token string) error {
	t.Helper()
	_, err := identityv1.NewIdentityServiceClient(rig.Dial(t, conn.Target(), token)).WhoAmI(ctx, &identityv1.WhoAmIRequest{})
	return err
}

// await asks each process until it accepts or refuses a token, as wanted.
func await(ctx context.Context, t *testing.T, target *rig.Target, token string, want codes.Code) {
	t.Helper()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for _, conn := range services(target) {
		for err := whoAmI(ctx, t, conn, token); status.Code(err) != want; err = whoAmI(ctx, t, conn, token) {
			select {
			case <-retry.C:
			case <-ctx.Done():
				t.Fatalf("%s: %v, want %v", conn.Target(), err, want)
			}
		}
	}
}

// Issue 13, shown by 4, with an issuer: its user's task runs through all four processes. The event stream outlives a rotation of the issuer's keys, ends when
// the issuer is removed from the file, while the task goes on, and can be resumed once the issuer is back.
func TestIssuerOfFourProcesses(t *testing.T) {
	target, p, file := withIssuer(t, "30s")
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	as := func(token string) rig.REST { return rig.REST{Base: target.HTTP, Key: token} }
	old := p.Token(nil)
	task, err := as(old).Create(ctx, &executorv1.CreateTaskRequest{
		Goal: "go slowly", AutoExecute: new(true), Playbook: "steps:\n" + strings.Repeat("  - {tool: t/slow, input: {steps: 150}}\n", 20),
	})
	if err != nil {
		t.Fatal(err)
	}
	if task.GetUserSub() != "ann" {
		t.Errorf("the task is %s's", task.GetUserSub())
	}
	events, ended := watch(ctx, as(old), task.GetId(), 0)
	<-events

	p.Publish(p.Key(), identitytest.RSA("k2"))
	rotated := p.Token(nil)
	await(ctx, t, target, rotated, codes.OK)
	for enough := time.After(2 * time.Second); enough != nil; { // longer than between two checks of a stream's token
		select {
		case err := <-ended:
			t.Fatalf("the rotation of the keys ended the stream: %v", err)
		case <-events:
		case <-enough:
			enough = nil
		}
	}
	last := <-events

	identitytest.Write(t, file, "issuers:\n- {issuer: 'https://login.invalid', audience: pawl}\n")
	removed := time.Now()
	var refused *rig.Refused
	for err := error(nil); err == nil; {
		select {
		case last = <-events:
		case err = <-ended:
			if !errors.As(err, &refused) || refused.Reason != "UNAUTHENTICATED" {
				t.Fatalf("the stream of a removed issuer ended with %v", err)
			}
		case <-ctx.Done():
			t.Fatal("the stream of a removed issuer goes on")
		}
	}
	t.Logf("the stream ended %s after its issuer was removed", time.Since(removed).Round(time.Millisecond))
	await(ctx, t, target, rotated, codes.Unauthenticated)
	if _, err := as(rotated).Get(ctx, task.GetId()); !errors.As(err, &refused) || refused.HTTP != 401 {
		t.Errorf("REST with a token of a removed issuer: %v", err)
	}

	identitytest.Write(t, file, "issuers:\n"+p.Entry(""))
	await(ctx, t, target, rotated, codes.OK)
	if _, err := as(p.Token(map[string]any{"sub": "bob"})).Get(ctx, task.GetId()); !errors.As(err, &refused) || refused.Reason != "TASK_NOT_FOUND" {
		t.Errorf("another user of the issuer: %v", err)
	}
	events, ended = watch(ctx, as(rotated), task.GetId(), last.GetSeq())
	if next := <-events; next.GetSeq() != last.GetSeq()+1 {
		t.Errorf("the resumed stream begins with event %d after event %d", next.GetSeq(), last.GetSeq())
	}
	if _, err := as(rotated).Cancel(ctx, &executorv1.CancelTaskRequest{Id: task.GetId()}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// watch reads the events of a task in the background, and returns how the stream ends.
func watch(ctx context.Context, client rig.Client, id string, after uint64) (<-chan *executorv1.ExecutorEvent, <-chan error) {
	events, ended := make(chan *executorv1.ExecutorEvent, 1000), make(chan error, 1)
	go func() {
		ended <- client.Watch(ctx, id, after, func(e *executorv1.ExecutorEvent) bool {
			events <- e
			return true
		})
	}()
	return events, ended
}

// Issue 13, shown by 4: each process allows the clocks to differ by the skew of the file, and no more.
func TestClockSkewOfProcesses(t *testing.T) {
	target, p, _ := withIssuer(t, "2m")
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	for claim, ahead := range map[string]time.Duration{"exp": -time.Minute, "nbf": time.Minute, "iat": time.Minute} {
		at := func(d time.Duration) string { return p.Token(map[string]any{claim: time.Now().Add(d).Unix()}) }
		for _, conn := range services(target) {
			if err := whoAmI(ctx, t, conn, at(ahead)); err != nil {
				t.Errorf("%s: %s %s from now: %v", conn.Target(), claim, ahead, err)
			}
			if err := whoAmI(ctx, t, conn, at(4*ahead)); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s: %s %s from now: %v, want Unauthenticated", conn.Target(), claim, 4*ahead, err)
			}
		}
	}
}

// challenge is what a client without a valid token is told.
var challenge = regexp.MustCompile(`^Bearer realm="pawl", resource_metadata="([^"]+)"(, error="invalid_token")?$`)

// A client without a token finds the issuers from the endpoint's answer, in four processes and in one, and is served with a token of one (RFC 9728).
func TestMCPAuthorization(t *testing.T) {
	four, p, file := withIssuer(t, "30s")
	for name, target := range map[string]*rig.Target{"four": four, "one": rig.Binary(t, binaries, rig.Options{Flags: []string{"--oidc", file}})} {
		for _, path := range []string{"/mcp", "/mcp/t"} {
			t.Run(name+path, func(t *testing.T) {
				const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
				resource := target.HTTP + path
				for key, invalid := range map[string]bool{"": false, "pawl_none": true, p.Token(map[string]any{"aud": "another"}): true} {
					status, _, header := postTo(t, resource, key, list)
					got := challenge.FindStringSubmatch(header.Get("WWW-Authenticate"))
					if status != http.StatusUnauthorized || got == nil || got[1] != target.HTTP+"/.well-known/oauth-protected-resource"+path || (got[2] != "") != invalid {
						t.Errorf("with %.20q: %d, WWW-Authenticate %q", key, status, header.Get("WWW-Authenticate"))
					}
				}
				for _, suffix := range []string{"", path} {
					resp, err := http.Get(target.HTTP + "/.well-known/oauth-protected-resource" + suffix)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = resp.Body.Close() }()
					var got map[string]any
					if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(map[string]any{
						"resource": target.HTTP + suffix, "resource_name": "Pawl", "bearer_methods_supported": []any{"header"}, "authorization_servers": []any{p.URL},
					}, got); diff != "" {
						t.Errorf("the metadata (-want +got):\n%s", diff)
					}
				}
				if status, body, _ := postTo(t, resource, p.Token(nil), list); status != http.StatusOK {
					t.Errorf("with a token: %d %s", status, body)
				}
			})
		}
	}
}
