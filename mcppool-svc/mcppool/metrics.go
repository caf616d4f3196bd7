package mcppool

import (
	"cmp"
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/mcppool-svc/internal/conn"
)

// Keys of attributes, and the values of resourceKey.
const (
	stateKey    = attribute.Key("pawl.connection.state")
	resourceKey = attribute.Key("pawl.resource")
	calls       = "calls"
	connections = "connections"
)

// instruments makes the pool's instruments and remembers the first error.
type instruments struct {
	meter metric.Meter
	all   []metric.Observable
	err   error
}

func (i *instruments) gauge(name, unit, what string) metric.Int64ObservableGauge {
	g, err := i.meter.Int64ObservableGauge("pawl.mcppool."+name, metric.WithUnit(unit), metric.WithDescription(what))
	i.all, i.err = append(i.all, g), cmp.Or(i.err, err)
	return g
}

func (i *instruments) counter(name, unit, what string) metric.Int64ObservableCounter {
	c, err := i.meter.Int64ObservableCounter("pawl.mcppool."+name, metric.WithUnit(unit), metric.WithDescription(what))
	i.all, i.err = append(i.all, c), cmp.Or(i.err, err)
	return c
}

// observe lets collectors read the state of the pool, until stop.
func observe(m metric.Meter, c *inflight.Calls, p *conn.Pool, cache *call.Cache) (stop func() error, err error) {
	i := instruments{meter: m}
	running := i.gauge("calls.running", "{call}", "Tool calls that run now.")
	waiting := i.gauge("calls.waiting", "{call}", "Those of them that wait for a connection to be made.")
	states := i.gauge("connections", "{connection}", "Connections to MCP servers: connecting, busy with calls, idle, or closing.")
	limit := i.gauge("limit", "{item}", "How many calls and connections there may be.")
	kept := i.gauge("results.kept", "{result}", "Results that were not acknowledged yet.")
	keptBytes := i.gauge("results.kept.size", "By", "Their size.")
	refused := i.counter("refused", "{item}", "Calls and connections that there was no room for.")
	cached := i.counter("cache.lookups", "{lookup}", "Calls of reading tools whose result may be kept: hits and misses.")
	saturation, err := m.Float64ObservableGauge("pawl.mcppool.saturation", metric.WithUnit("1"), metric.WithDescription("The part of the limit that is in use."))
	if err := cmp.Or(i.err, err); err != nil {
		return nil, fmt.Errorf("making an instrument: %w", err)
	}
	registration, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		l, c, k := c.Load(), p.Load(), cache.Stats()
		o.ObserveInt64(running, int64(l.Running))
		o.ObserveInt64(waiting, int64(c.Waiting))
		for state, n := range c.States {
			o.ObserveInt64(states, int64(n), metric.WithAttributes(stateKey.String(state)))
		}
		o.ObserveInt64(kept, int64(l.Kept))
		o.ObserveInt64(keptBytes, l.KeptBytes)
		for _, r := range []struct {
			of          string
			used, limit int
			refused     uint64
		}{{calls, l.Running, l.Limit, l.Refused}, {connections, c.Used, c.Limit, c.Refused}} {
			of := metric.WithAttributes(resourceKey.String(r.of))
			o.ObserveInt64(limit, int64(r.limit), of)
			o.ObserveInt64(refused, int64(r.refused), of)
			o.ObserveFloat64(saturation, float64(r.used)/float64(max(r.limit, 1)), of)
		}
		o.ObserveInt64(cached, k.Hits, metric.WithAttributes(attribute.String("pawl.cache.result", "hit")))
		o.ObserveInt64(cached, k.Misses, metric.WithAttributes(attribute.String("pawl.cache.result", "miss")))
		return nil
	}, append(i.all, saturation)...)
	if err != nil {
		return nil, fmt.Errorf("registering instruments: %w", err)
	}
	return registration.Unregister, nil
}
