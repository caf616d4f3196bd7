package serve

import (
	"context"
	"time"

	"github.com/alecthomas/kong"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Limits bound what clients can make a process use. Each is a flag, and shown by the metric pawl.limit. The defaults are for a container of 1 GiB;
// a zero value stands for the default.
type Limits struct {
	RequestBytes         int64         `default:"67108864" help:"Bytes of requests that are received or worked on at once; one user gets at most half, services all. A call counts for at least 16 KiB, a stream for 64 KiB (${default})."`
	ClientConnections    int           `default:"8192" help:"Connections of all clients to a listener (${default})."`
	UserConnections      int           `default:"512" help:"Connections of one user to a listener (${default})."`
	AnonymousConnections int           `default:"256" help:"Connections to a listener on which no valid credential has arrived so far; one more closes the oldest of the address that has the most (${default})."`
	AnonymousBytes       int64         `default:"262144" help:"Bytes that a connection may send before a valid credential (${default})."`
	AnonymousTime        time.Duration `default:"1m" help:"How long a connection may last without a valid credential (${default})."`
	ConnectionStreams    int           `default:"8192" help:"Calls at once on a gRPC connection. The gateway sends the calls of all its clients on one (${default})."`
	PingInterval         time.Duration `default:"10s" help:"Least time between keepalive pings of a gRPC client; the connection of one that sends more is closed (${default})."`
	HeaderBytes          int           `default:"65536" help:"Bytes of a request's headers (${default})."`
	HeaderTime           time.Duration `default:"10s" help:"How long the headers of an HTTP request may take to arrive (${default})."`
	BodyTime             time.Duration `default:"15s" help:"How long the body of an HTTP request may take to arrive, besides a second for each 64 KiB that has arrived (${default})."`
	WriteTime            time.Duration `default:"30s" help:"How long a client may take to read 64 KiB of a response; then the stream (over HTTP, the connection) ends, and an event stream can be resumed (${default})."`
	HTTPIdleTime         time.Duration `name:"http-idle-time" default:"2m" help:"How long an unused HTTP connection is kept (${default})."`
}

// WithDefaults returns the limits with their defaults in place of zero values.
func (l Limits) WithDefaults() Limits {
	if err := kong.ApplyDefaults(&l); err != nil {
		panic(err) // a tag of Limits is wrong, or a value
	}
	return l
}

// Requests returns a new budget of requests, and makes the metric pawl.limit show the limits. A process calls it once.
func (l Limits) Requests() *Budget {
	l = l.WithDefaults()
	parser, err := kong.New(&l, kong.NoDefaultHelp())
	if err != nil {
		panic(err) // a tag of Limits is wrong
	}
	for _, flag := range parser.Model.Flags {
		limit := flag.Target.Int()
		if d, ok := flag.Target.Interface().(time.Duration); ok {
			limit = int64(d.Seconds())
		}
		observe("pawl.limit", "", "What clients may use at most, in units, bytes or seconds.", func() int64 { return limit }, attribute.String("limit", flag.Name))
	}
	return NewBudget("requests", l.RequestBytes)
}

// observe adds a gauge.
func observe(name, unit, what string, value func() int64, attributes ...attribute.KeyValue) {
	_, err := otel.Meter("pawl.dev/services/serve").Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(value(), metric.WithAttributes(attributes...))
			return nil
		}))
	if err != nil {
		otel.Handle(err)
	}
}
