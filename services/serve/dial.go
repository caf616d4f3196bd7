package serve

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	_ "google.golang.org/grpc/balancer/ringhash" // the policy that ringConfig names
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/resolver/ringhash"

	"pawl.dev/services/identity"
	"pawl.dev/services/telemetry"
)

// maxReply bounds one message that a client receives: a page of steps may hold several payloads.
const maxReply = 64 << 20

// tlsScheme begins an address to which connections use TLS.
const tlsScheme = "https://"

// Dial returns a connection with the system's certificate authorities if the address begins with https://, else one without TLS, for loopback
// or a network that is trusted with the token. An empty token is not sent. The connection is made at the first call. The address is host:port
// or any target that gRPC knows.
func Dial(addr, token string) (*grpc.ClientConn, error) {
	return (*Certificates)(nil).Dial(addr, token)
}

// Dial is Dial with these certificates. It uses TLS if there are certificate authorities or the address begins with https://.
func (c *Certificates) Dial(addr, token string) (*grpc.ClientConn, error) {
	addr, creds := c.credentialsFor(addr)
	return dial(addr, dialOptions(token, creds)...)
}

// DialAs is Dial to one address of a name:port. With TLS, the certificate there must be valid for the name.
func (c *Certificates) DialAs(name, addr, token string) (*grpc.ClientConn, error) {
	_, creds := c.credentialsFor(addr)
	return dial(addr, append(dialOptions(token, creds), grpc.WithAuthority(name))...)
}

// credentialsFor returns the address without its scheme, and the credentials for connections to it. c may be nil.
func (c *Certificates) credentialsFor(addr string) (string, credentials.TransportCredentials) {
	host, secure := strings.CutPrefix(addr, tlsScheme)
	if secure || c != nil && c.flags.CA != "" {
		return strings.TrimSuffix(host, "/"), c.clientCredentials()
	}
	return addr, insecure.NewCredentials()
}

func dial(addr string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(addr, options...)
	if err != nil {
		return nil, fmt.Errorf("dial %q; give it as host:port: %w", addr, err)
	}
	return conn, nil
}

func dialOptions(token string, creds credentials.TransportCredentials) []grpc.DialOption {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)),
		// gRPC's default backoff grows to two minutes, so a restarted service could stay unreachable for that long.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// Callers retry if it is safe. The connection never does, even if a service config in the DNS says so.
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
	}
	if _, h := telemetry.Handlers(); h != nil {
		options = append(options, grpc.WithStatsHandler(h))
	}
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(identity.BearerCredentials(token)))
	}
	return options
}

// affinityHeader carries the affinity of a call, which selects a replica.
const affinityHeader = "pawl-affinity"

// ringConfig sends calls of one affinity to one replica. When a replica is added or removed, only its share of the calls moves. A replica
// that is about to stop reports NOT_SERVING in its health, and gets no new calls.
const ringConfig = `{"loadBalancingConfig":[{"ring_hash_experimental":{"requestHashHeader":"` + affinityHeader + `"}}],` +
	`"healthCheckConfig":{"serviceName":""}}`

const (
	dnsScheme    = "dns:///"
	staticScheme = "replicas"
)

// WithAffinity returns a context whose outgoing calls on a Replicas connection go to the same replica as all other calls with these parts.
func WithAffinity(ctx context.Context, parts ...string) context.Context {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	md, ok := metadata.FromOutgoingContext(ctx)
	if !ok {
		md = metadata.MD{}
	}
	md.Set(affinityHeader, strings.Join(escaped, "/"))
	return metadata.NewOutgoingContext(ctx, md)
}

// Replicas is a connection to several processes of one service. A call goes to the process that its affinity
// selects; a call without an affinity goes to any.
type Replicas struct {
	*grpc.ClientConn
	options []grpc.DialOption // for one replica
	static  []string          // addresses from a list; nil if the replicas are looked up
	host    string            // the name to look up in the DNS; empty for a list
	port    string
}

// Several reports whether an address names several processes: a list with commas, or a name to look up (dns:///name:port).
func Several(addr string) bool {
	return strings.Contains(addr, ",") || strings.HasPrefix(addr, dnsScheme)
}

// DialReplicas is Dial for an address of several processes. Each must have a certificate for its own place in a list, or for the looked-up name.
func (c *Certificates) DialReplicas(addr, token string) (*Replicas, error) {
	addr, creds := c.credentialsFor(addr)
	return dialReplicas(addr, dialOptions(token, creds))
}

func dialReplicas(addr string, options []grpc.DialOption) (*Replicas, error) {
	r := &Replicas{options: slices.Clip(options)}
	var err error
	options = append(r.options, grpc.WithDefaultServiceConfig(ringConfig))
	if name, ok := strings.CutPrefix(addr, dnsScheme); ok {
		if r.host, r.port, err = net.SplitHostPort(name); err != nil {
			return nil, fmt.Errorf("dial %q; give it as dns:///name:port: %w", addr, err)
		}
		r.options = append(r.options, grpc.WithAuthority(name))
	} else {
		for replica := range strings.SplitSeq(addr, ",") {
			replica = strings.TrimSpace(replica)
			if _, _, err := net.SplitHostPort(replica); err != nil {
				return nil, fmt.Errorf("dial %q; give it as host:port,host:port: %w", addr, err)
			}
			if !slices.Contains(r.static, replica) {
				r.static = append(r.static, replica)
			}
		}
		addr, options = staticScheme+":///"+addr, append(options, grpc.WithResolvers(newList(r.static)))
	}
	if r.ClientConn, err = grpc.NewClient(addr, options...); err != nil {
		return nil, fmt.Errorf("dial %q; give it as host:port: %w", addr, err)
	}
	return r, nil
}

// Addrs returns the addresses of the replicas: the list, or the addresses in the DNS now.
func (r *Replicas) Addrs(ctx context.Context) ([]string, error) {
	if r.host == "" {
		return r.static, nil
	}
	hosts, err := net.DefaultResolver.LookupHost(ctx, r.host)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", r.host, err)
	}
	for i := range hosts {
		hosts[i] = net.JoinHostPort(hosts[i], r.port)
	}
	return hosts, nil
}

// At returns a connection to one replica. The caller must close the connection.
func (r *Replicas) At(addr string) (*grpc.ClientConn, error) { return dial(addr, r.options...) }

// list is a resolver that returns a fixed list of replicas.
type list struct {
	*manual.Resolver
	authority string
}

// OverrideAuthority implements resolver.AuthorityOverrider. A list is not a host name, so the authority is its first replica.
func (l list) OverrideAuthority(resolver.Target) string { return l.authority }

// newList returns the resolver of a list. A replica's place on the ring depends on its name in the list, not on its current IP address.
func newList(addrs []string) list {
	var state resolver.State
	for _, addr := range addrs {
		e := resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr, ServerName: addr}}}
		state.Endpoints = append(state.Endpoints, ringhash.SetHashKey(e, addr))
	}
	r := manual.NewBuilderWithScheme(staticScheme)
	r.InitialState(state)
	return list{r, addrs[0]}
}
