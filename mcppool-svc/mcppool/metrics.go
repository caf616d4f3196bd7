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

// instruments makes the pool's instruments and keeps the first error.
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

// observe registers the instruments of the pool's state. stop unregisters them.
func observe(m metric.Meter, c *inflight.Calls, p *conn.Pool, cache *call.Cache) (stop func() error, err error) {
	i := instruments{meter: m}
	running := i.gauge("calls.running", "{call}", "Tool calls that run now.")
	waiting := i.gauge("calls.waiting", "{call}", "Requests that wait for a connection, or for their turn on one.")
	states := i.gauge("connections", "{connection}", "Connections to MCP servers: connecting, busy with calls, idle, or closing.")
	limit := i.gauge("limit", "{item}", "The limits on running calls and on connections.")
	kept := i.gauge("results.kept", "{result}", "Results that are not yet acknowledged.")
	keptBytes := i.gauge("results.kept.size", "By", "Size of the results that are not yet acknowledged.")
	refused := i.counter("refused", "{item}", "Calls refused because of a limit or because the pool was stopping, and connections refused because of a limit.")
	cached := i.counter("cache.lookups", "{lookup}", "Lookups in the cache of results of reading tools: hits and misses.")
	saturation, err := m.Float64ObservableGauge("pawl.mcppool.saturation", metric.WithUnit("1"), metric.WithDescription("The used fraction of the limit."))
	if err := cmp.Or(i.err, err); err != nil {
		return nil, fmt.Errorf("making an instrument: %w", err)
	}
	registration, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		load, pool, lookups := c.Load(), p.Load(), cache.Stats()
		o.ObserveInt64(running, int64(load.Running))
		o.ObserveInt64(waiting, int64(pool.Waiting))
		for state, n := range pool.States {
			o.ObserveInt64(states, int64(n), metric.WithAttributes(stateKey.String(state)))
		}
		o.ObserveInt64(kept, int64(load.Kept))
		o.ObserveInt64(keptBytes, load.KeptBytes)
		for _, r := range []struct {
			resource    string
			used, limit int
			refused     uint64
		}{{calls, load.Running, load.Limit, load.Refused}, {connections, pool.Used, pool.Limit, pool.Refused}} {
			attributes := metric.WithAttributes(resourceKey.String(r.resource))
			o.ObserveInt64(limit, int64(r.limit), attributes)
			o.ObserveInt64(refused, int64(r.refused), attributes)
			o.ObserveFloat64(saturation, float64(r.used)/float64(max(r.limit, 1)), attributes)
		}
		o.ObserveInt64(cached, lookups.Hits, metric.WithAttributes(attribute.String("pawl.cache.result", "hit")))
		o.ObserveInt64(cached, lookups.Misses, metric.WithAttributes(attribute.String("pawl.cache.result", "miss")))
		return nil
	}, append(i.all, saturation)...)
	if err != nil {
		return nil, fmt.Errorf("registering instruments: %w", err)
	}
	return registration.Unregister, nil
}
