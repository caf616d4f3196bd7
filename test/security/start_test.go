package security

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/suite"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/identity"
	"pawl.dev/test/rig"
)

// testTimeout bounds each test.
const testTimeout = 5 * time.Minute

// installation is a suite with API keys in this process.
type installation struct {
	grpc, http  string // addresses
	keysPath    string
	issuersPath string // "": there are no issuers
	keys        *identity.KeyFile
	log         *logBook
}

// logBook collects what the suite logs.
type logBook struct {
	errorsOnly bool // other lines are dropped
	mu         sync.Mutex
	text       bytes.Buffer // guarded by mu
}

func (l *logBook) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errorsOnly && !bytes.Contains(line, []byte(`"level":"ERROR"`)) {
		return len(line), nil
	}
	return l.text.Write(line)
}

func (l *logBook) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(l.text.String(), "\n")
}

// start starts a suite whose key file holds the keys that prepare adds, and which accepts the issuers of the file that it names. Of the options, only the servers count.
func start(t *testing.T, o rig.Options, prepare func(*installation)) *installation {
	t.Helper()
	in := &installation{keysPath: filepath.Join(t.TempDir(), "keys.yaml"), log: &logBook{}}
	var err error
	if in.keys, err = identity.OpenKeyFile(in.keysPath); err != nil {
		t.Fatal(err)
	}
	prepare(in)
	cfg := suite.Config{
		DataDir: t.TempDir(), HTTPAddr: "127.0.0.1:0", GRPCAddr: "127.0.0.1:0", KeysFile: in.keysPath, IssuersFile: in.issuersPath,
		MCPConfigs: []string{rig.MCPConfig(t, o)},
	}
	cfg.Pool.Peers = []string{rig.FreeAddr(t)} // so that the service of replicas is served too
	s, err := suite.New(t.Context(), cfg, slog.New(slog.NewJSONHandler(in.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	in.grpc, in.http = s.GRPCAddr(), "http://"+s.HTTPAddr()
	return in
}

// key adds a key to the file and returns its token.
func (in *installation) key(t *testing.T, k identity.Key) string {
	t.Helper()
	token, _, err := in.keys.Add(k)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// expire changes the expiry of the key with a token to the past.
func (in *installation) expire(t *testing.T, token string) {
	t.Helper()
	raw, err := os.ReadFile(in.keysPath)
	if err != nil {
		t.Fatal(err)
	}
	entry := regexp.MustCompile(`(?s)(id: ` + idOf(token) + `\n.*?expires: )\S+`)
	changed := entry.ReplaceAll(raw, []byte("${1}2001-01-01T00:00:00Z"))
	if bytes.Equal(raw, changed) {
		t.Fatal("the key file has no such key with an expiry")
	}
	if err := os.WriteFile(in.keysPath, changed, 0o600); err != nil {
		t.Fatal(err)
	}
}

// idOf returns the id of the key with a token.
func idOf(token string) string {
	return regexp.MustCompile(`^pawl_([^_]+)_`).FindStringSubmatch(token)[1]
}

// awaitRefused waits until the suite, which takes the key file as unchanged for a second, refuses a token that it accepted so far.
func (in *installation) awaitRefused(ctx context.Context, t *testing.T, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	who := identityv1.NewIdentityServiceClient(rig.Dial(t, in.grpc, token))
	for {
		_, err := who.WhoAmI(ctx, &identityv1.WhoAmIRequest{})
		if status.Code(err) == codes.Unauthenticated {
			return
		}
		if err != nil || ctx.Err() != nil {
			t.Fatalf("a key that was removed or expired is still accepted: %v", err)
		}
	}
}
