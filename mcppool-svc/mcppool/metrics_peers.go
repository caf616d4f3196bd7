package mcppool

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"pawl.dev/mcppool-svc/internal/peer"
)

// peerKey is the key of the attribute with another replica's address.
const peerKey = attribute.Key("pawl.peer")

// observePeers registers the instruments of the other replicas' state. stop unregisters them.
func observePeers(m metric.Meter, status func() []peer.Status) (stop func() error, err error) {
	up, err1 := m.Int64ObservableGauge("pawl.mcppool.peer.up", metric.WithUnit("1"),
		metric.WithDescription("1 if the last contact with another replica succeeded, else 0."))
	contact, err2 := m.Float64ObservableGauge("pawl.mcppool.peer.contact", metric.WithUnit("s"),
		metric.WithDescription("Time since the last successful contact."))
	lag, err3 := m.Float64ObservableGauge("pawl.mcppool.peer.lag", metric.WithUnit("s"),
		metric.WithDescription("Time since this replica last had all changes of the other replica."))
	keys, err5 := m.Int64ObservableGauge("pawl.mcppool.peer.key.differs", metric.WithUnit("1"),
		metric.WithDescription("1 if this replica and another one have different keys (--token-key), and so exchange no changes; else 0."))
	offset, err4 := m.Float64ObservableGauge("pawl.mcppool.peer.clock.offset", metric.WithUnit("s"),
		metric.WithDescription("How far the other replica's clock is ahead of this replica's."))
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, fmt.Errorf("making an instrument: %w", err)
	}
	registration, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, s := range status() {
			attributes := metric.WithAttributes(peerKey.String(s.Addr))
			o.ObserveInt64(up, oneIf(s.Up), attributes)
			o.ObserveInt64(keys, oneIf(s.KeyMismatch), attributes)
			if s.Contact >= 0 {
				o.ObserveFloat64(contact, s.Contact.Seconds(), attributes)
				o.ObserveFloat64(offset, s.Offset.Seconds(), attributes)
			}
			if s.Lag >= 0 {
				o.ObserveFloat64(lag, s.Lag.Seconds(), attributes)
			}
		}
		return nil
	}, up, keys, contact, lag, offset)
	if err != nil {
		return nil, fmt.Errorf("registering instruments: %w", err)
	}
	return registration.Unregister, nil
}

func oneIf(condition bool) int64 {
	if condition {
		return 1
	}
	return 0
}
