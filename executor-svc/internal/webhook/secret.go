package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"pawl.dev/services/seal"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	// secretPrefix begins a secret in its text form.
	secretPrefix = "whsec_"
	// secretSize is the size of a key; the specification asks for 24 to 64 bytes.
	secretSize = 32
	// rotation is how long a secret signs after it was replaced.
	rotation = 24 * time.Hour
	// maxReplaced is how many replaced secrets sign beside the newest one.
	maxReplaced = 3
)

// Secrets makes and uses the secrets of webhooks, which are stored encrypted.
type Secrets struct{ Box *seal.Box }

// Add gives a webhook a new secret and returns it. A replaced secret stays valid for the time of a rotation, unless maxReplaced newer ones were replaced too.
func (s Secrets) Add(ref journal.WebhookRef, w *storagev1.Webhook, now time.Time) string {
	key := make([]byte, secretSize)
	_, _ = rand.Read(key) // never fails
	secrets := []*storagev1.WebhookSecret{{Sealed: s.Box.Seal(nil, key, place(ref))}}
	for i, old := range w.GetSecrets() {
		expires := old.GetExpireTime()
		if i == 0 {
			expires = now.Add(rotation).UnixNano()
		}
		if expires > now.UnixNano() && len(secrets) <= maxReplaced {
			secrets = append(secrets, &storagev1.WebhookSecret{Sealed: old.GetSealed(), ExpireTime: expires})
		}
	}
	w.Secrets = secrets
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// Newest returns the secret that Add returned last.
func (s Secrets) Newest(ref journal.WebhookRef, w *storagev1.Webhook) (string, error) {
	keys, err := s.keys(ref, w, time.Now())
	if err != nil {
		return "", err
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(keys[0]), nil
}

// sign returns the value of the header webhook-signature: a signature by each valid secret.
func (s Secrets) sign(ref journal.WebhookRef, w *storagev1.Webhook, id string, at time.Time, body []byte) (string, error) {
	keys, err := s.keys(ref, w, at)
	if err != nil {
		return "", err
	}
	var all []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
		_, _ = mac.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " "), nil
}

// keys returns the keys that are valid at a time, the newest first.
func (s Secrets) keys(ref journal.WebhookRef, w *storagev1.Webhook, at time.Time) (keys [][]byte, err error) {
	for i, secret := range w.GetSecrets() {
		if e := secret.GetExpireTime(); e != 0 && e <= at.UnixNano() {
			continue
		}
		key, err := s.Box.Open(secret.GetSealed(), place(ref))
		if err != nil && i == 0 {
			return nil, fmt.Errorf("the webhook's secret cannot be read: %w; make a new one with `pawl webhooks rotate`", err)
		}
		if err == nil {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("the webhook has no secret; make one with `pawl webhooks rotate`")
	}
	return keys, nil
}

// place binds an encrypted secret to its webhook.
func place(ref journal.WebhookRef) string { return "webhook\x00" + ref.User + "\x00" + ref.ID }
