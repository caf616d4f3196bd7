package mcpserver

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// signer makes texts that clients keep and send back. They are valid until the process ends.
type signer struct{ key []byte }

func newSigner() signer {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return signer{key}
}

// kind is the use of a token: a token of one kind is not valid as another.
type kind string

const (
	sessionToken  kind = "session"  // a session, for revisions with sessions
	stateToken    kind = "state"    // requestState
	questionToken kind = "question" // the id of a request to the client
	maxToken           = 4096
)

// sign returns a token with the value, which clients can read.
func (s signer) sign(k kind, value any) string {
	data, _ := json.Marshal(value) // structs of strings and bools always encode
	payload := base64.RawURLEncoding.EncodeToString(data)
	return payload + "." + s.mac(k, payload)
}

// open reads the value of a token, and reports whether it is one of this process and kind.
func (s signer) open(k kind, token string, value any) bool {
	payload, mac, ok := strings.Cut(token, ".")
	if !ok || len(token) > maxToken || !hmac.Equal([]byte(mac), []byte(s.mac(k, payload))) {
		return false
	}
	data, err := base64.RawURLEncoding.DecodeString(payload)
	return err == nil && json.Unmarshal(data, value) == nil
}

func (s signer) mac(k kind, payload string) string {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(string(k) + "\x00" + payload))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// client is what a session knows of its client, or what a request without a session says of it.
type client struct {
	User     string `json:"user,omitempty"`
	Revision string `json:"rev,omitempty"`
	Forms    bool   `json:"forms,omitempty"` // it can ask its user to fill in a form
	URLs     bool   `json:"urls,omitempty"`  // it can ask its user to open an address
	Tasks    bool   `json:"tasks,omitempty"` // it knows the extension for tasks, since 2026-07-28
	Nonce    string `json:"nonce,omitempty"` // of the session; empty: there is none
}

// question names a question of a running call or of a task, in a stateToken or a questionToken.
type question struct {
	User  string `json:"user,omitempty"`
	Call  string `json:"call,omitempty"`  // that asks, or that follows the task
	Task  string `json:"task,omitempty"`  // that asks; empty: the call
	Input string `json:"input,omitempty"` // of the call, or the wait of the task; empty: all of the task
	Hash  string `json:"hash,omitempty"`  // of server, tool and arguments
}

// name returns the question's name in inputRequests: the server's own if the pool has added the round to it (r1:name).
func (q question) name() string {
	if _, name, ok := strings.Cut(q.Input, ":"); ok {
		return name
	}
	return q.Input
}
