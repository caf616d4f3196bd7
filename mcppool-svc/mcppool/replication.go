package mcppool

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"

	"pawl.dev/mcppool-svc/internal/oauth"
	"pawl.dev/mcppool-svc/internal/peer"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/process"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/sealed"
	"pawl.dev/mcppool-svc/internal/store"
	"pawl.dev/services/seal"
)

// checkPeers returns an error if the configuration of the peers cannot be used.
func (c Config) checkPeers() error {
	local, err := peer.Check(c.Peers)
	switch {
	case err != nil || local:
		return err
	case c.ServiceKey == "":
		return errors.New("refusing --peers beyond this machine without --service-key: the replicas could not authenticate each other; make a key with `pawl keys add mcppool --role service`")
	case c.TokenKey == "":
		return errors.New("refusing --peers beyond this machine without --token-key: messages between replicas contain secrets and are encrypted with this key; " +
			"make a key with `openssl rand -base64 32` and give it to all replicas")
	}
	return nil
}

// openStore opens the store, and merges the other replicas' entries before anything reads it. It also returns the Box that encrypts logins.
func (s *Service) openStore(ctx context.Context, deps Deps) (*replica.Store, *seal.Box, error) {
	buckets := slices.Concat(registry.Buckets(), oauth.Buckets(), pin.Buckets())
	file, err := store.Open(s.cfg.DataDir, replica.Buckets(buckets)...)
	if err != nil {
		return nil, nil, err
	}
	s.closers = append(s.closers, file.Close, func() error { s.forgetting.Wait(); return nil })
	source := seal.Source{Ref: s.cfg.TokenKey, Flag: "--token-key", Getenv: func(name string) (string, bool) { return process.Getenv(s.cfg.Environ, name) }}
	if s.cfg.DataDir != "" {
		source.File = filepath.Join(s.cfg.DataDir, sealed.KeyFile)
	}
	keys, err := seal.OpenKeys(source)
	if err != nil {
		return nil, nil, err
	}
	box, err := seal.NewBox(keys...)
	if err != nil {
		return nil, nil, err
	}
	// Registrations are encrypted below their versions: replicas may have different keys, and exchange plain values.
	sealing, err := sealed.Store(file, box, registry.BucketServers, replica.BucketHeld)
	if err != nil {
		return nil, nil, err
	}
	cfg := replica.Config{
		Buckets: buckets, First: slices.Concat(pin.First(), oauth.First()), LowPriority: registry.LowPriorityBuckets(),
		Readable: isReadable, Now: deps.Now,
	}
	if s.cfg.TokenKey == "" {
		cfg.Local = oauth.Buckets() // each replica has its own key
	}
	st, err := replica.Open(sealing, cfg)
	if err != nil || len(s.cfg.Peers) == 0 {
		return st, box, err
	}
	if s.cfg.TokenKey == "" {
		deps.Log.WarnContext(ctx, "the replicas of this MCP pool do not share logins to MCP servers; to share logins, give all replicas the same --token-key")
	}
	return st, box, s.openPeers(ctx, st, keys[0], deps)
}

// openPeers connects to the other replicas, and pulls from those that it can reach soon.
func (s *Service) openPeers(ctx context.Context, st *replica.Store, key []byte, deps Deps) error {
	cfg := peer.Config{
		Addrs: s.cfg.Peers, Self: s.cfg.Self, Interval: deps.peerInterval, Now: deps.Now, Log: deps.Log, Lookup: net.DefaultResolver.LookupHost,
		Dial: func(name, addr string) (peer.Conn, error) {
			return deps.Certificates.DialAs(name, addr, s.cfg.ServiceKey)
		},
	}
	if deps.dialPeer != nil {
		cfg.Dial = deps.dialPeer
	}
	if s.cfg.TokenKey != "" {
		cfg.Key = key
	}
	var err error
	if s.peers, err = peer.New(cfg, st); err != nil {
		return err
	}
	s.closers = append(s.closers, s.peers.Close)
	stop, err := observePeers(deps.Meter, s.peers.Status)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, stop)
	return s.peers.Start(ctx)
}

// checkWritable returns an error if other replicas would never receive the changes made here.
func (s *Service) checkWritable() error {
	if s.peers == nil {
		return nil
	}
	return s.peers.Writable()
}

// isReadable reports whether this program can read a value from another replica, which may run a newer version.
func isReadable(bucket, key string, value []byte) bool {
	switch {
	case slices.Contains(registry.Buckets(), bucket):
		return registry.Readable(bucket, key, value)
	case slices.Contains(pin.Buckets(), bucket):
		return pin.Readable(value)
	default:
		return oauth.Readable(value)
	}
}

// applyRemote updates registry, pins, logins and connections after changes of other replicas.
func (s *Service) applyRemote(places []replica.Place) {
	for _, change := range s.registry.ApplyRemote(places) {
		s.retireChanged(change)
	}
	s.transportHints.ApplyRemote(places)
	s.anonymousElicitors.ApplyRemote(places)
	if err := s.pins.ApplyRemote(places); err != nil {
		s.log.Error("approvals of tools from another replica cannot be read, and are used only after a restart", "error", err)
	}
	for _, login := range s.logins.ApplyRemote(places) {
		for _, server := range s.registry.All() {
			if server.Origin() == login.Origin {
				s.pool.RetireUser(server.UID, login.User)
				s.api.Touch(server.UID, login.User)
			}
		}
	}
}

// retireChanged retires the connections that a change of another replica made obsolete, and forgets a server that was deleted or got
// another origin.
func (s *Service) retireChanged(c registry.ServerChange) {
	switch {
	case c.User != "":
		if !s.registry.Active(c.User, c.Now) {
			s.pool.RetireUser(c.Now.UID, c.User)
		}
		return
	case c.Before != nil && (c.Now == nil || c.Now.UID != c.Before.UID):
		s.pool.Retire(c.Before.UID, "")
	}
	if c.Now != nil && c.Now.Disabled {
		s.pool.Retire(c.Now.UID, "")
	} else if c.Now != nil {
		s.pool.Retire(c.Now.UID, c.Now.Revision())
	}
	if c.Before != nil && (c.Now == nil || c.Now.Origin() != c.Before.Origin()) {
		// This replica may have data that the replica that made the change does not have.
		s.forgetting.Go(func() { s.api.Forget(context.Background(), c.Before) })
	}
}
