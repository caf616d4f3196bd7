package mcppool

import (
	"context"
	"errors"
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

// gauges are the instruments of observe.
type gauges struct {
	running, waiting, connections, limit, kept, keptBytes metric.Int64ObservableGauge
	saturation                                            metric.Float64ObservableGauge
	refused, cached                                       metric.Int64ObservableCounter
}

// observe lets collectors read the state of the pool, until stop.
func observe(m metric.Meter, c *inflight.Calls, p *conn.Pool, cache *call.Cache) (stop func() error, err error) {
	var errs []error
	gauge := func(name, unit, what string) metric.Int64ObservableGauge {
		i, err := m.Int64ObservableGauge("pawl.mcppool."+name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return i
	}
	counter := func(name, unit, what string) metric.Int64ObservableCounter {
		i, err := m.Int64ObservableCounter("pawl.mcppool."+name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return i
	}
	g := gauges{
		running:     gauge("calls.running", "{call}", "Tool calls that run now."),
		waiting:     gauge("calls.waiting", "{call}", "Those of them that wait for a connection to be made."),
		connections: gauge("connections", "{connection}", "Connections to MCP servers: connecting, busy with calls, idle, or closing."),
		limit:       gauge("limit", "{item}", "How many calls and connections there may be."),
		kept:        gauge("results.kept", "{result}", "Results that were not acknowledged yet."),
		keptBytes:   gauge("results.kept.size", "By", "Their size."),
		refused:     counter("refused", "{item}", "Calls and connections that there was no room for."),
		cached:      counter("cache.lookups", "{lookup}", "Calls of reading tools whose result may be kept: hits and misses."),
	}
	g.saturation, err = m.Float64ObservableGauge("pawl.mcppool.saturation", metric.WithUnit("1"), metric.WithDescription("The part of the limit that is in use."))
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("making an instrument: %w", err)
	}
	registration, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		g.report(o, c.Load(), p.Load(), cache.Stats())
		return nil
	}, g.running, g.waiting, g.connections, g.limit, g.kept, g.keptBytes, g.saturation, g.refused, g.cached)
	if err != nil {
		return nil, fmt.Errorf("registering instruments: %w", err)
	}
	return registration.Unregister, nil
}

func (g gauges) report(o metric.Observer, l inflight.Load, c conn.Load, k call.CacheStats) {
	o.ObserveInt64(g.running, int64(l.Running))
	o.ObserveInt64(g.waiting, int64(c.Waiting))
	for state, n := range c.States {
		o.ObserveInt64(g.connections, int64(n), metric.WithAttributes(stateKey.String(state)))
	}
	o.ObserveInt64(g.kept, int64(l.Kept))
	o.ObserveInt64(g.keptBytes, l.KeptBytes)
	for _, r := range []struct {
		of          string
		used, limit int
		refused     uint64
	}{{calls, l.Running, l.Limit, l.Refused}, {connections, c.Used, c.Limit, c.Refused}} {
		of := metric.WithAttributes(resourceKey.String(r.of))
		o.ObserveInt64(g.limit, int64(r.limit), of)
		o.ObserveInt64(g.refused, int64(r.refused), of)
		o.ObserveFloat64(g.saturation, float64(r.used)/float64(max(r.limit, 1)), of)
	}
	o.ObserveInt64(g.cached, k.Hits, metric.WithAttributes(attribute.String("pawl.cache.result", "hit")))
	o.ObserveInt64(g.cached, k.Misses, metric.WithAttributes(attribute.String("pawl.cache.result", "miss")))
}
