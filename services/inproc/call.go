package inproc

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// authority is what calls are addressed to: this machine, by definition.
const authority = "localhost"

// authorities is that as metadata, which the receiver gets copies of.
var authorities = []string{authority}

type address struct{}

func (address) Network() string { return "inproc" }
func (address) String() string  { return "inproc" }

// thisProcess is the peer on both sides.
var thisProcess = peer.Peer{Addr: address{}, LocalAddr: address{}}

// callOptions are those of gRPC's call options that mean something without a network.
type callOptions struct {
	headers  []*metadata.MD
	trailers []*metadata.MD
	creds    []credentials.PerRPCCredentials
	onFinish []func(error)
	shares   bool
}

func readOptions(creds credentials.PerRPCCredentials, opts []grpc.CallOption) callOptions {
	var o callOptions
	if creds != nil {
		o.creds = append(o.creds, creds)
	}
	for _, opt := range opts {
		switch opt := opt.(type) {
		case grpc.HeaderCallOption:
			o.headers = append(o.headers, opt.HeaderAddr)
		case grpc.TrailerCallOption:
			o.trailers = append(o.trailers, opt.TrailerAddr)
		case grpc.PeerCallOption:
			*opt.PeerAddr = thisProcess
		case grpc.PerRPCCredsCallOption:
			o.creds = append(o.creds, opt.Creds)
		case grpc.OnFinishCallOption:
			o.onFinish = append(o.onFinish, opt.OnFinish)
		case sharing:
			o.shares = true
		}
	}
	return o
}

func (o *callOptions) setHeader(md metadata.MD) {
	for _, addr := range o.headers {
		*addr = md
	}
}

func (o *callOptions) setTrailer(md metadata.MD) {
	for _, addr := range o.trailers {
		*addr = md
	}
}

func (o *callOptions) finish(err error) {
	for _, f := range o.onFinish {
		f(err)
	}
}

// incoming turns what the client sends along into what the server receives.
func (o *callOptions) incoming(ctx context.Context, name string) (metadata.MD, error) {
	md, ok := metadata.FromOutgoingContext(ctx) // a copy
	if !ok {
		md = metadata.MD{}
	}
	for key := range md {
		if strings.HasPrefix(key, ":") || strings.HasPrefix(key, "grpc-") {
			delete(md, key) // reserved for gRPC itself, which drops them too
		}
	}
	service := name[:max(0, strings.LastIndexByte(name, '/'))]
	for _, creds := range o.creds {
		more, err := creds.GetRequestMetadata(ctx, "inproc://"+authority+service)
		if err != nil {
			return nil, status.Errorf(codes.Unauthenticated, "get the credentials of the call: %v", err)
		}
		for key, value := range more {
			md.Append(key, value)
		}
	}
	md[":authority"] = authorities
	return md, nil
}

// endOnly passes on the end and the deadline of a client's context, and none of its values.
type endOnly struct{ context.Context }

func (endOnly) Value(any) any { return nil }

// AfterFunc spares the context package a goroutine per derived context.
func (e endOnly) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(e.Context, f) }

// serverContext is the context of a handler. Cancel it when the handler has returned.
func serverContext(client context.Context, md metadata.MD) (context.Context, context.CancelFunc) {
	base := context.Background()
	if client.Done() != nil {
		base = endOnly{client}
	}
	ctx, cancel := context.WithCancel(base)
	return peer.NewContext(metadata.NewIncomingContext(ctx, md), &thisProcess), cancel
}

// statusOf makes the error that a client gets: a status as the wire would have made it, not the server's own value with
// its causes.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	if st.Code() == codes.OK {
		return nil
	}
	return status.FromProto(st.Proto()).Err()
}

// ended is the error of a call whose client's context is done.
func ended(ctx context.Context) error {
	return status.FromContextError(ctx.Err()).Err()
}
