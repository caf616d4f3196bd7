package serve

import (
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"pawl.dev/services/identity"
	"pawl.dev/services/telemetry"
)

// maxReply bounds what a client takes in one message: a page of steps may hold several payloads.
const maxReply = 64 << 20

// Dial makes a connection that connects at its first use, in plain text: to loopback, or within a network that is
// trusted with the token. "" sends no token. The address is host:port or any target that gRPC knows.
func Dial(addr, token string) (*grpc.ClientConn, error) {
	return dial(addr, dialOptions(token, insecure.NewCredentials())...)
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
		// gRPC's own backoff goes up to two minutes, which is how long a restarted service would not be found again.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// Callers retry where it is safe; the connection never does, least of all because of a DNS record.
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
	}
	if _, h := telemetry.Handlers(); h != nil {
		options = append(options, grpc.WithStatsHandler(h))
	}
	if token != "" { // credentials that send nothing cost as much as those that do
		options = append(options, grpc.WithPerRPCCredentials(identity.BearerCredentials(token)))
	}
	return options
}
