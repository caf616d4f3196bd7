package bolt

import (
	"bytes"
	"encoding/binary"
	"maps"
	"strings"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// keyCounts is the key of the counts of all other entries of the file. The transaction that changes an entry changes them.
var keyCounts = []byte("mcounts")

// counted is the bucket of a file that counts its entries.
type counted struct {
	*bbolt.Bucket
	counts counts
	cursor *bbolt.Cursor
}

// newCounted reads the counts of a file. Files of schema versions before 9 have none.
func newCounted(b *bbolt.Bucket) *counted {
	stored := &executorv1.StoreInfo{}
	v, err := verifyChecksum(keyCounts, b.Get(keyCounts))
	if err != nil || proto.Unmarshal(v, stored) != nil {
		return &counted{b, countAll(&table{base: b}), b.Cursor()}
	}
	return &counted{b, newCounts(stored), b.Cursor()}
}

// Put stores a value.
func (c *counted) Put(key, value []byte) error {
	c.remove(key)
	c.counts.add(key, value, 1)
	return c.Bucket.Put(key, value)
}

// Delete removes a key if it exists.
func (c *counted) Delete(key []byte) error {
	c.remove(key)
	return c.Bucket.Delete(key)
}

func (c *counted) remove(key []byte) {
	if k, v := c.cursor.Seek(key); bytes.Equal(k, key) {
		c.counts.add(k, v, -1)
	}
}

// store stores the counts.
func (c *counted) store() error {
	v, err := proto.Marshal(c.counts.StoreInfo)
	if err != nil {
		return err
	}
	return c.Bucket.Put(keyCounts, withChecksum(keyCounts, v))
}

// countsOf returns the same as countAll from the stored counts.
func countsOf(t *table) counts {
	c := newCounted(t.base)
	for i := len(t.layers) - 1; i >= 0; i-- {
		below := &table{layers: t.layers[i+1:], base: t.base}
		t.layers[i].Scan(func(change *change) bool {
			if hidden := below.ascend(change.key); hidden.next() && bytes.Equal(hidden.key, change.key) {
				c.counts.add(hidden.key, hidden.value, -1)
			}
			if !change.deleted {
				c.counts.add(change.key, change.value, 1)
			}
			return true
		})
	}
	none := func(_ string, n int64) bool { return n == 0 }
	maps.DeleteFunc(c.counts.Tasks, none)
	maps.DeleteFunc(c.counts.Bytes, none)
	return c.counts
}

// counts are numbers of entries, and their bytes.
type counts struct{ *executorv1.StoreInfo }

func newCounts(c *executorv1.StoreInfo) counts {
	if c.Tasks == nil {
		c.Tasks = map[string]int64{}
	}
	if c.Bytes == nil {
		c.Bytes = map[string]int64{}
	}
	return counts{c}
}

// countAll counts the entries that a table shows.
func countAll(t *table) counts {
	all := newCounts(&executorv1.StoreInfo{})
	for c := t.ascend(nil); c.next(); {
		all.add(c.key, c.value, 1)
	}
	return all
}

// add counts an entry n times.
func (c counts) add(k, v []byte, n int64) {
	what := "indexes"
	switch k[0] {
	case kindTask:
		what = c.addTaskPart(k, n)
	case kindPayload, kindLarge, kindChunk:
		what = "payloads"
		if k[0] != kindChunk {
			c.Payloads += n
		}
	case kindAgent:
		what = "agents"
		c.Agents += n
	case kindTopic:
		what = "topics"
		if len(k) == idSize+2 && k[idSize+1] == partSettings {
			c.Topics += n
		}
	case kindOutgoing:
		c.Outgoing += n
	case kindWebhook, kindPending, kindFailed:
		what = "webhooks"
	case kindStatus:
		status := executorv1.ExecutorStatus(k[max(0, len(k)-idSize-1)])
		c.Tasks[strings.TrimPrefix(status.String(), "EXECUTOR_STATUS_")] += n
	case kindMeta:
		what = "metadata"
		switch {
		case bytes.Equal(k, keyCounts):
			return
		case bytes.Equal(k, keySchema) && len(v) == 8:
			c.Schema = int32(binary.BigEndian.Uint64(v))
		}
	}
	c.Bytes[what] += n * int64(len(k)+len(v))
}

// addTaskPart counts an entry of a task, and returns what it is.
func (c counts) addTaskPart(k []byte, n int64) string {
	if len(k) > idSize+1 {
		switch k[idSize+1] {
		case partRecord:
			c.Records += n
			return "records"
		case partCommand:
			c.Commands += n
			return "commands"
		}
	}
	return "tasks"
}
