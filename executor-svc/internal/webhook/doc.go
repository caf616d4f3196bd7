// Package webhook delivers events to the URLs of webhooks, as Standard Webhooks (https://www.standardwebhooks.com) specifies. The journal stores a delivery
// with the commit of its event; a delivery is removed once the receiver has accepted the event, so each event is delivered at least once, always with the
// same webhook-id. The package must not know how tasks run.
package webhook
