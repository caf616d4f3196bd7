package registry

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// Defaults of a server's limits.
const (
	DefaultCallTimeout  = 60 * time.Second
	DefaultStartTimeout = 30 * time.Second
)

// Server is one registered server. Treat it as immutable: Clone before changing.
type Server struct {
	// UID names this registration for ever; a server that is registered again under the same id has another.
	UID         string
	ID          string // a slug
	Owner       string // a user's sub; empty: shared by all users
	DisplayName string
	Description string

	// Exactly one of the three is set.
	Stdio   *Stdio
	HTTP    *HTTP
	Builtin *Builtin

	Disabled     bool
	AutoActivate bool
	// OnlyWhenNamed keeps it out of tasks that name no servers.
	OnlyWhenNamed bool
	Trusted       bool
	Policies      map[string]Policy // by tool name; `*` stands for any text
	Pinning       Pinning
	Permissions   []Rule        // the first that fits a call decides
	CallTimeout   time.Duration // 0: the default
	StartTimeout  time.Duration // 0: the default
	// Roots are folders that the server is told of when it asks: file URIs.
	Roots []string

	Isolation      Isolation
	MaxConnections int           // of all users; 0: as many as the pool allows
	CacheTTL       time.Duration // how long results of reading tools may be given again; 0: they are not kept
	Sampling       *Sampling     // what it may ask of models; nil: nothing

	FromConfig bool
	// ByOperator says that an operator wrote the transport: it may refer to the pool's environment, and a user whose
	// server it is cannot change it.
	ByOperator bool

	Generation uint64 // counts changes
	Change     string // names the last one, which two replicas may have made at once; empty if there was none
	Meant      string // names the last change of what a call means, where there were others since; see KeepMeaning
	CreateTime time.Time
	UpdateTime time.Time

	// Remembered by Seal.
	revision string
	origin   string
	config   uint64
}

// Stdio is a child process that speaks MCP on stdin and stdout.
type Stdio struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"cwd,omitempty"`
}

// HTTP is a server reached over HTTP.
type HTTP struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	// PublicOnly refuses loopback, private and link-local addresses when dialling.
	PublicOnly bool `json:"public_only,omitempty"`
	// OAuth says how the pool logs in; nil: as the server's metadata say.
	OAuth *OAuth `json:"oauth,omitempty"`
	// SSE says that it speaks the older transport, of 2024-11-05; else that is found out.
	SSE bool `json:"sse,omitempty"`
}

// Builtin is a server that runs in the pool's own process.
type Builtin struct {
	Name string `json:"name"`
	Root string `json:"root,omitempty"`
}

// Policy is the operator's word on a tool.
type Policy struct {
	Effect     commonv1.Effect
	Idempotent bool
	RiskFloor  commonv1.RiskLevel
}

// Key tells servers of the same id but of different owners apart.
func (s *Server) Key() string { return s.Owner + "\x00" + s.ID }

// Etag changes whenever anything of the registration changes.
func (s *Server) Etag() string {
	sum := sha256.Sum256(binaryOf(s.stateOf()...))
	return hex.EncodeToString(sum[:8])
}

// stateOf names the state of a registration.
func (s *Server) stateOf() []any {
	state := []any{s.UID, s.Generation}
	if s.Change != "" {
		state = append(state, s.Change)
	}
	return state
}

// ConfigRevision changes whenever a call may mean something else than before, or need another approval. It is never 0, and fits into a
// double. It names changes, and is not derived from what they brought, which may be secret. Servers of configuration files, which have no
// history, get it from their text, through the UID.
func (s *Server) ConfigRevision() uint64 {
	if s.config != 0 {
		return s.config
	}
	sum := sha256.Sum256(binaryOf("config", s.meaning()))
	return max(binary.BigEndian.Uint64(sum[:])>>16, 1)
}

func (s *Server) meaning() string {
	if s.Meant != "" {
		return s.Meant
	}
	return s.Etag()
}

// KeepMeaning says what s, which replaces before, is another registration for: names, times, limits and users do not matter to an approved
// call.
func (s *Server) KeepMeaning(before *Server) {
	s.Meant = ""
	if s.Revision() == before.Revision() && s.Trusted == before.Trusted && reflect.DeepEqual(s.Policies, before.Policies) &&
		reflect.DeepEqual(s.Permissions, before.Permissions) {
		s.Meant = before.meaning()
	}
}

// Revision changes whenever a connection made before would be the wrong one. It is derived from secrets: keep it inside.
func (s *Server) Revision() string {
	if s.revision != "" {
		return s.revision
	}
	all := []any{s.Stdio, s.HTTP, s.Builtin, s.ByOperator, s.Roots, s.Isolation}
	if s.Sampling != nil {
		all = append(all, "sampling") // is announced when a connection is made; its bounds are not
	}
	sum := sha256.Sum256(binaryOf(all...))
	return hex.EncodeToString(sum[:])
}

// Origin changes whenever what answers is another program or address, as far as the registration tells: not with a key,
// nor with a header. Tools that were approved were so for an origin.
func (s *Server) Origin() string {
	if s.origin != "" {
		return s.origin
	}
	var uid, where any
	if !s.FromConfig {
		uid = s.UID // of a configured server it changes with each word of its text
	}
	switch {
	case s.Stdio != nil:
		where = []any{"stdio", s.Stdio.Command, s.Stdio.Args, s.Stdio.Dir}
	case s.HTTP != nil:
		where = []any{"http", s.HTTP.URL}
	default:
		where = []any{"builtin", s.Builtin}
	}
	sum := sha256.Sum256(binaryOf(s.Owner, s.ID, uid, where))
	return hex.EncodeToString(sum[:16])
}

// Seal caches the derived values that every call needs and returns the server, which must not change from then on.
func (s *Server) Seal() *Server {
	s.revision, s.origin, s.config = s.Revision(), s.Origin(), s.ConfigRevision()
	return s
}

// CallLimit is the longest that a call may take.
func (s *Server) CallLimit() time.Duration {
	if s.CallTimeout > 0 {
		return s.CallTimeout
	}
	return DefaultCallTimeout
}

// StartLimit is the longest that connecting may take.
func (s *Server) StartLimit() time.Duration {
	if s.StartTimeout > 0 {
		return s.StartTimeout
	}
	return DefaultStartTimeout
}

// Clone copies the server so that the copy can be changed.
func (s *Server) Clone() *Server {
	c := *s
	c.revision, c.origin, c.config = "", "", 0
	if s.Stdio != nil {
		t := *s.Stdio
		t.Args, t.Env = slices.Clone(t.Args), maps.Clone(t.Env)
		c.Stdio = &t
	}
	if s.HTTP != nil {
		t := *s.HTTP
		t.Headers, t.OAuth = maps.Clone(t.Headers), t.OAuth.clone()
		c.HTTP = &t
	}
	if s.Builtin != nil {
		t := *s.Builtin
		c.Builtin = &t
	}
	c.Policies = maps.Clone(s.Policies)
	c.Permissions = slices.Clone(s.Permissions)
	c.Roots = slices.Clone(s.Roots)
	c.Sampling = s.Sampling.clone()
	return &c
}

// binaryOf is a stable text of plain values. Marshalling those cannot fail.
func binaryOf(values ...any) []byte {
	b, err := json.Marshal(values)
	if err != nil {
		panic(err)
	}
	return b
}
