package registry

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"time"

	"pawl.dev/mcppool-svc/internal/store"
)

// Defaults of a server's limits.
const (
	DefaultCallTimeout    = 60 * time.Second
	DefaultStartTimeout   = 30 * time.Second
	DefaultCommandTimeout = 2 * time.Minute
	stopTime              = 15 * time.Second // starting a program, and stopping it
	DefaultSampleTokens   = 1024
	DefaultSampleRequests = 10
)

// Server is one registered server. It is also the stored form. Treat it as immutable: Clone before changing.
type Server struct {
	// UID identifies this registration; a server that is registered again under the same id gets another.
	UID         string `json:"uid"`
	ID          string `json:"id"`              // a slug
	Owner       string `json:"owner,omitempty"` // a user's sub; empty: shared by all users
	DisplayName string `json:"display_name,omitempty"`
	Description string `json:"description,omitempty"`

	// Exactly one of the three is set.
	Stdio   *Stdio   `json:"stdio,omitempty"`
	HTTP    *HTTP    `json:"http,omitempty"`
	Builtin *Builtin `json:"builtin,omitempty"`

	Disabled     bool `json:"disabled,omitempty"`
	AutoActivate bool `json:"auto_activate,omitempty"`
	// OnlyWhenNamed keeps the server out of tasks that name no servers.
	OnlyWhenNamed bool              `json:"only_when_named,omitempty"`
	Trusted       bool              `json:"trusted,omitempty"`
	Policies      map[string]Policy `json:"tool_policies,omitempty"` // by tool name; `*` stands for any text
	Pinning       Pinning           `json:"pinning,omitempty"`
	Permissions   []Rule            `json:"permissions,omitempty"`   // the first that fits a call decides
	CallTimeout   time.Duration     `json:"call_timeout,omitempty"`  // ns; 0: the default
	StartTimeout  time.Duration     `json:"start_timeout,omitempty"` // ns; 0: the default
	// Roots are the folders (file URIs) that the server gets on roots/list.
	Roots []string `json:"roots,omitempty"`

	Isolation      Isolation     `json:"isolation,omitempty"`
	MaxConnections int           `json:"max_connections,omitempty"` // of all users; 0: as many as the pool allows
	CacheTTL       time.Duration `json:"cache_ttl,omitempty"`       // ns; how long results of tools that only read are cached; 0: not at all
	Sampling       *Sampling     `json:"sampling,omitempty"`        // the limits of its requests to models; nil: no requests

	FromConfig bool `json:"-"` // from a configuration file or built in; not stored
	// ByOperator means that an operator set the transport. It may then refer to the pool's environment, and an owner who is no operator
	// cannot change it.
	ByOperator bool `json:"by_operator,omitempty"`

	// Request is the pairKey of the user and the request_id that created the server, and RequestDigest the digest of that request; empty if
	// it had no request_id.
	Request       string `json:"request,omitempty"`
	RequestDigest string `json:"request_digest,omitempty"`

	Generation uint64    `json:"generation"`       // counts changes
	Change     string    `json:"change,omitempty"` // id of the last change, because two replicas may make the same Generation; empty if there was none
	ConfigEtag string    `json:"meant,omitempty"`  // the Etag when ConfigRevision last changed; empty if it is the current Etag; see KeepConfigRevision
	CreateTime time.Time `json:"create_time"`
	UpdateTime time.Time `json:"update_time"`

	// Cached by Seal.
	revision       string
	origin         string
	configRevision uint64
}

// Stdio is a child process that speaks MCP on stdin and stdout.
type Stdio struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"cwd,omitempty"`
	User    string            `json:"user,omitempty"` // of the operating system; empty: the pool's own
}

// HTTP is a server reached over HTTP.
type HTTP struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	// PublicOnly refuses loopback, private and link-local addresses when dialling.
	PublicOnly bool `json:"public_only,omitempty"`
	// OAuth configures logins; nil: the server's metadata decide.
	OAuth *OAuth `json:"oauth,omitempty"`
	// SSE means that the server speaks the older transport (2024-11-05). If false, the pool tries the transports.
	SSE bool `json:"sse,omitempty"`
}

// Builtin is a server that runs in the pool's own process.
type Builtin struct {
	Name      string     `json:"name"`
	Root      string     `json:"root,omitempty"`
	Workspace *Workspace `json:"workspace,omitempty"` // nil: the workspace is only read
}

// Workspace is what the built-in server `workspace` allows beside reading and searching its folder.
type Workspace struct {
	Write          bool          `json:"write,omitempty"`
	Commands       []string      `json:"commands,omitempty"`        // the programs that may be started
	Network        bool          `json:"network,omitempty"`         // for programs
	CommandTimeout time.Duration `json:"command_timeout,omitempty"` // ns; 0: the default of the workspace server, as below
	MaxMemory      int64         `json:"max_memory,omitempty"`      // bytes, of a program and all that it starts
	MaxProcesses   int           `json:"max_processes,omitempty"`   // and threads, of a program and all that it starts
	MaxFileSize    int64         `json:"max_file_size,omitempty"`   // bytes
}

// OffersChanges reports whether b is a workspace whose tools may change files or run programs.
func (b *Builtin) OffersChanges() bool {
	return b != nil && b.Workspace != nil && (b.Workspace.Write || len(b.Workspace.Commands) > 0)
}

// OAuth configures how the pool logs in to an HTTP server.
type OAuth struct {
	Grant    Grant  `json:"grant,omitempty"`
	ClientID string `json:"client_id,omitempty"` // empty: the pool registers itself
	// ClientSecret may be a private key in PEM, with which the pool signs, and may refer to the pool's environment or files.
	ClientSecret string   `json:"client_secret,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
}

// Sampling limits the requests to models that a server may make.
type Sampling struct {
	Model       string `json:"model,omitempty"`        // one of the planner's models; empty: one that matches a hint of the server, else the first
	MaxTokens   int    `json:"max_tokens,omitempty"`   // of an answer; 0: the default
	MaxRequests int    `json:"max_requests,omitempty"` // of a call; 0: the default
}

// Tokens returns the limit on the tokens of an answer.
func (s *Sampling) Tokens() int { return cmp.Or(s.MaxTokens, DefaultSampleTokens) }

// Requests returns the limit on the model requests during one call.
func (s *Sampling) Requests() int { return cmp.Or(s.MaxRequests, DefaultSampleRequests) }

// Key returns a key that is unique even if several owners have servers with the same id.
func (s *Server) Key() string { return s.Owner + "\x00" + s.ID }

// Etag changes whenever anything of the registration changes.
func (s *Server) Etag() string {
	sum := sha256.Sum256(binaryOf(s.stateOf()...))
	return hex.EncodeToString(sum[:8])
}

// stateOf returns the values that identify the state of a registration.
func (s *Server) stateOf() []any {
	state := []any{s.UID, s.Generation}
	if s.Change != "" {
		state = append(state, s.Change)
	}
	return state
}

// ConfigRevision changes whenever the same call may have another effect than before, or need another approval. It is never 0 and fits into a
// double. It reveals no secrets, because it is derived from the ids of changes, or from the UID of a configured server.
func (s *Server) ConfigRevision() uint64 {
	if s.configRevision != 0 {
		return s.configRevision
	}
	sum := sha256.Sum256(binaryOf("config", s.configEtag()))
	return max(binary.BigEndian.Uint64(sum[:])>>16, 1)
}

func (s *Server) configEtag() string {
	if s.ConfigEtag != "" {
		return s.ConfigEtag
	}
	return s.Etag()
}

// KeepConfigRevision keeps the configuration revision of before, which s replaces, unless a change could affect an approved call:
// connection, trust, tool policies, permissions.
func (s *Server) KeepConfigRevision(before *Server) {
	s.ConfigEtag = ""
	if s.Revision() == before.Revision() && s.Trusted == before.Trusted && same(s.Policies, before.Policies) && same(s.Permissions, before.Permissions) {
		s.ConfigEtag = before.configEtag()
	}
}

// Revision changes whenever existing connections have to be replaced. It is derived from secrets: do not pass it to clients.
func (s *Server) Revision() string {
	if s.revision != "" {
		return s.revision
	}
	all := []any{s.Stdio, s.HTTP, s.Builtin, s.ByOperator, s.Roots, s.Isolation}
	if s.Sampling != nil {
		all = append(all, "sampling") // the handshake announces it, but not its limits
	}
	sum := sha256.Sum256(binaryOf(all...))
	return hex.EncodeToString(sum[:])
}

// Origin identifies the program or address of the server, without headers and environment. Approvals of tools belong to an origin.
func (s *Server) Origin() string {
	if s.origin != "" {
		return s.origin
	}
	var uid, target any
	if !s.FromConfig {
		uid = s.UID // the UID of a configured server changes with its text
	}
	switch {
	case s.Stdio != nil:
		target = []any{"stdio", s.Stdio.Command, s.Stdio.Args, s.Stdio.Dir}
	case s.HTTP != nil:
		target = []any{"http", s.HTTP.URL}
	default:
		target = []any{"builtin", s.Builtin}
	}
	sum := sha256.Sum256(binaryOf(s.Owner, s.ID, uid, target))
	return hex.EncodeToString(sum[:16])
}

// Seal caches the derived values that every call needs and returns the server, which must not change from then on.
func (s *Server) Seal() *Server {
	s.revision, s.origin, s.configRevision = s.Revision(), s.Origin(), s.ConfigRevision()
	return s
}

// CallLimit returns how long a call may take. By default, that of a workspace that runs programs is longer than theirs, so that a program that
// takes too long still has a result.
func (s *Server) CallLimit() time.Duration {
	limit := DefaultCallTimeout
	if s.Builtin != nil && s.Builtin.Workspace != nil {
		limit = max(limit, cmp.Or(s.Builtin.Workspace.CommandTimeout, DefaultCommandTimeout)+stopTime)
	}
	return cmp.Or(s.CallTimeout, limit)
}

// StartLimit returns how long connecting may take.
func (s *Server) StartLimit() time.Duration { return cmp.Or(s.StartTimeout, DefaultStartTimeout) }

// SameOperatorSettings reports whether two registrations agree on the settings that only operators may change: tools, permissions,
// connections, cached results, models.
func (s *Server) SameOperatorSettings(o *Server) bool {
	settings := func(s *Server) *Server {
		return &Server{
			Trusted: s.Trusted, Policies: s.Policies, Permissions: s.Permissions,
			Isolation: s.Isolation, MaxConnections: s.MaxConnections, CacheTTL: s.CacheTTL, Sampling: s.Sampling,
		}
	}
	return same(settings(s), settings(o))
}

// Clone copies the server so that the copy can be changed.
func (s *Server) Clone() *Server {
	c := &Server{FromConfig: s.FromConfig}
	if err := json.Unmarshal(store.Encode(s), c); err != nil {
		panic(err) // it was just written
	}
	return c
}

// same reports whether two values have the same stored form.
func same(a, b any) bool { return bytes.Equal(store.Encode(a), store.Encode(b)) }

// binaryOf encodes plain values as JSON, for hashing.
func binaryOf(values ...any) []byte { return store.Encode(values) }

// Isolation determines who shares a connection to a server.
type Isolation string

// The isolations.
const (
	// PerUser gives each user one connection.
	PerUser Isolation = ""
	// PerTask gives each session of each user one connection, which closes when the session is released.
	PerTask Isolation = "task"
	// Shared gives all users the same connection; for servers that keep no state between calls.
	Shared Isolation = "shared"
)

// Pinning determines which tools need an approval before they are used. The tools of a server's first list never need one.
type Pinning string

// The ways to pin.
const (
	// PinChanges requires an approval for changed and new tools.
	PinChanges Pinning = ""
	// PinAllowNew requires an approval for changed tools only.
	PinAllowNew Pinning = "allow_new"
	// PinNothing requires no approvals. Earlier approvals are kept, and count again when the pinning changes back.
	PinNothing Pinning = "trust_all"
)

// Grant is how the pool gets tokens for a server.
type Grant string

// The grants.
const (
	GrantLogin             Grant = ""                   // each user logs in if the server requires it
	GrantClientCredentials Grant = "client_credentials" // the pool logs in for all users
)

// Decision is the decision of a rule about a call.
type Decision string

// The decisions.
const (
	Allow Decision = "allow"
	Ask   Decision = "ask" // the call is made; its risk is at least MEDIUM, for which tasks ask for approval unless their policy or a grant allows the call
	Deny  Decision = "deny"
)
