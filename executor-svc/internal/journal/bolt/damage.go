package bolt

import (
	"errors"
	"fmt"

	"pawl.dev/executor-svc/internal/journal"
)

// damagedError returns an ErrDamaged that names the entry and the reason.
func damagedError(what string, why any) error {
	return fmt.Errorf("%s: %w (%v)", what, journal.ErrDamaged, why)
}

// errMissing: an entry that others depend on is missing.
var errMissing = errors.New("it is missing")

// faultsAsErrors runs read and turns a panic into ErrDamaged: bbolt panics on a damaged page, and a page beyond the end of the file
// faults.
func faultsAsErrors(what string, read func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = damagedError(what, fault)
		}
	}()
	return read()
}

// get returns the value of a key after checking its checksum; nil if there is none.
func get(t *table, key []byte) ([]byte, error) {
	stored := t.Get(key)
	if stored == nil {
		return nil, nil
	}
	return verifyChecksum(key, stored)
}

// put stores a value with its checksum.
func put(t *table, key, value []byte) error {
	return t.Put(key, withChecksum(key, value))
}

// name describes the entry of a key for error messages.
func name(key []byte) string {
	if len(key) > idSize+1 && (key[0] == kindTask || key[0] == kindTopic) {
		owner, parts := "task", map[byte]string{
			partHead: "head", partCheckpoint: "checkpoint", partRecord: "record", partCommand: "command", partPayload: "reference to a payload",
		}
		if key[0] == kindTopic {
			owner, parts = "topic", map[byte]string{
				partSettings: "settings", partState: "state", partFacts: "record", partMessage: "message", partMessageID: "id of a message",
				partPayload: "reference to a payload", partSummary: "summary",
			}
		}
		part := parts[key[idSize+1]]
		n := ""
		if len(key) == idSize+2+8 {
			n = fmt.Sprintf(" %d", numberOf(key))
		}
		return fmt.Sprintf("%s%s of %s %s", part, n, owner, ownerOf(key))
	}
	if len(key) == 0 {
		return "entry without a key"
	}
	kind := map[byte]string{
		kindMeta: "metadata", kindDue: "index of due tasks", kindDeadline: "index of deadlines", kindEnded: "index of ended tasks",
		kindUser: "index of users", kindStatus: "index of statuses", kindAgentTask: "index of the tasks of agents", kindConversation: "index of conversations", kindRequest: "index of requests",
		kindWindow: "request window", kindPostWindow: "window of posts", kindPayload: "payload", kindLarge: "large payload", kindChunk: "part of a large payload", kindReference: "reference to a payload", kindAgent: "agent",
		kindTopicUser: "index of the topics of users", kindTopicRequest: "index of the requests for topics", kindArchived: "index of archived topics", kindOutgoing: "outbox", kindWebhook: "webhook",
		kindPending: "delivery", kindFailed: "failed delivery",
	}[key[0]]
	if kind == "" {
		kind = "unknown entry"
	}
	return fmt.Sprintf("%s %x", kind, key[1:])
}
