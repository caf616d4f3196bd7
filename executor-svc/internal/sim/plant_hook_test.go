//go:build !race

package sim

import (
	"context"
	"slices"

	"pawl.dev/executor-svc/internal/journal"
)

func hookingTalks(c *config) {
	talking(c)
	hooking(c)
}

// forgetfulDeliveries removes deliveries when they are read, not when they are accepted.
type forgetfulDeliveries struct{ journal.Journal }

func (f forgetfulDeliveries) Deliveries(ctx context.Context, q journal.DeliveryQuery) ([]journal.Delivery, error) {
	all, err := f.Journal.Deliveries(ctx, q)
	for _, d := range all {
		if deleteErr := f.Delivered(ctx, q.WebhookID, d.No); deleteErr != nil {
			return nil, deleteErr
		}
	}
	return all, err
}

// forgottenDeliveries forgets what is pending when a process starts.
type forgottenDeliveries struct{ journal.Journal }

func (f forgottenDeliveries) PendingWebhooks(context.Context) ([]journal.WebhookRef, error) {
	return nil, nil
}

// repeatingDelivery forgets that deliveries were accepted.
type repeatingDelivery struct{ journal.Journal }

func (r repeatingDelivery) Delivered(context.Context, string, uint64) error { return nil }

// reversedDeliveries gives the newest delivery first.
type reversedDeliveries struct{ journal.Journal }

func (r reversedDeliveries) Deliveries(ctx context.Context, q journal.DeliveryQuery) ([]journal.Delivery, error) {
	all, err := r.Journal.Deliveries(ctx, q)
	if q.After == 0 {
		slices.Reverse(all)
	}
	return all, err
}
