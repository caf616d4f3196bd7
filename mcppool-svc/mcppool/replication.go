package mcppool

import (
	"context"
	"errors"
	"net"
	"slices"

	"pawl.dev/mcppool-svc/internal/oauth"
	"pawl.dev/mcppool-svc/internal/peer"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/store"
	"pawl.dev/services/serve"
)

// checkPeers returns an error if the peers cannot be used with this configuration.
func (c Config) checkPeers() error {
	local, err := peer.Check(c.Peers)
	switch {
	case err != nil || local:
		return err
	case c.ServiceKey == "":
		return errors.New("refusing --peers beyond this machine without --service-key: the replicas could not authenticate each other; make a key with `pawl keys add mcppool --role service`")
	case c.TokenKey == "":
		return errors.New("refusing --peers beyond this machine without --token-key: messages between replicas contain secrets, and are encrypted with it; " +
			"make a key with `openssl rand -base64 32`, and give all replicas the same")
	}
	return nil
}

// openStore opens the store, and merges the other replicas' entries before anything reads it.
func (s *Service) openStore(ctx context.Context, deps Deps) (*replica.Store, error) {
	values := slices.Concat(registry.Buckets(), oauth.Buckets(), pin.Buckets())
	file, err := store.Open(s.cfg.DataDir, replica.Buckets(values)...)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, file.Close, func() error { s.tidying.Wait(); return nil })
	cfg := replica.Config{
		Buckets: values, First: slices.Concat(pin.First(), oauth.First()), LowPriority: registry.LowPriorityBuckets(),
		Readable: readable, Now: deps.Now,
	}
	if s.cfg.TokenKey == "" {
		cfg.Local = oauth.Buckets() // each replica has a key of its own
	}
	st, err := replica.Open(file, cfg)
	if err != nil || len(s.cfg.Peers) == 0 {
		return st, err
	}
	if s.cfg.TokenKey == "" {
		deps.Log.WarnContext(ctx, "the replicas of this MCP pool do not share logins to MCP servers: for that, give all of them the same --token-key")
	}
	return st, s.openPeers(ctx, st, deps)
}

// openPeers makes the first contact with the other replicas.
func (s *Service) openPeers(ctx context.Context, st *replica.Store, deps Deps) error {
	cfg := peer.Config{
		Addrs: s.cfg.Peers, Self: s.cfg.Self, Interval: deps.peerInterval, Now: deps.Now, Log: deps.Log, Lookup: net.DefaultResolver.LookupHost,
		Dial: func(addr string) (peer.Conn, error) { return serve.Dial(addr, s.cfg.ServiceKey) },
	}
	if deps.dialPeer != nil {
		cfg.Dial = deps.dialPeer
	}
	if s.cfg.TokenKey != "" {
		key, err := oauth.OpenKey(s.cfg.TokenKey, s.cfg.DataDir, s.cfg.Environ)
		if err != nil {
			return err
		}
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

// writable returns an error if other replicas would never receive the changes made here.
func (s *Service) writable() error {
	if s.peers == nil {
		return nil
	}
	return s.peers.Writable()
}

// readable reports whether this program can read a value that another replica, perhaps a newer one, wrote.
func readable(bucket, key string, value []byte) bool {
	switch {
	case slices.Contains(registry.Buckets(), bucket):
		return registry.Readable(bucket, key, value)
	case slices.Contains(pin.Buckets(), bucket):
		return pin.Readable(value)
	default:
		return oauth.Readable(value)
	}
}

// applied brings registry, pins, logins and connections up to date after other replicas' changes.
func (s *Service) applied(places []replica.Place) {
	for _, m := range s.registry.ApplyRemote(places) {
		s.moved(m)
	}
	s.transportHints.ApplyRemote(places)
	s.anonymousElicitors.ApplyRemote(places)
	if err := s.pins.ApplyRemote(places); err != nil {
		s.log.Error("approvals of tools from another replica cannot be read, and are used only after a restart", "error", err)
	}
	for _, m := range s.logins.ApplyRemote(places) {
		for _, server := range s.registry.All() {
			if server.Origin() == m.Origin {
				s.pool.RetireUser(server.UID, m.User)
				s.api.Touch(server.UID, m.User)
			}
		}
	}
}

// moved retires connections that are out of date.
func (s *Service) moved(m registry.ServerChange) {
	switch {
	case m.User != "":
		if !s.registry.Active(m.User, m.Now) {
			s.pool.RetireUser(m.Now.UID, m.User)
		}
		return
	case m.Before != nil && (m.Now == nil || m.Now.UID != m.Before.UID):
		s.pool.Retire(m.Before.UID, "")
	}
	if m.Now != nil && m.Now.Disabled {
		s.pool.Retire(m.Now.UID, "")
	} else if m.Now != nil {
		s.pool.Retire(m.Now.UID, m.Now.Revision())
	}
	if m.Before != nil && (m.Now == nil || m.Now.Origin() != m.Before.Origin()) {
		// The replica that made the change does the same, but it does not know the state that only this replica has.
		s.tidying.Go(func() { s.api.Forget(context.Background(), m.Before) })
	}
}
