package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/types/known/timestamppb"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal/wal"
)

// Info describes the journal. It counts the entries in short transactions, because a long one would hold up writers.
func (s *Store) Info(ctx context.Context) (*executorv1.StoreInfo, error) {
	return info(ctx, s.path, s.file)
}

// FileInfo describes a journal that no process has open.
func FileInfo(ctx context.Context, path string) (*executorv1.StoreInfo, error) {
	f, _, err := openToRead(path)
	if err != nil {
		return nil, err
	}
	i, err := info(ctx, path, f)
	return i, errors.Join(err, f.db.Close())
}

func info(ctx context.Context, path string, f *file) (*executorv1.StoreInfo, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	c := &counter{info: &executorv1.StoreInfo{
		Path: path, SizeBytes: stat.Size(), LogBytes: wal.Size(path), Tasks: map[string]int64{}, Bytes: map[string]int64{},
	}}
	for from := []byte{0}; from != nil; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := f.view(func(t *table) error {
			if from = c.scan(t, from); from != nil {
				return nil
			}
			c.info.FreeBytes = c.info.GetSizeBytes() - usedBytes(t.base)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	c.info.Oldest, c.info.Newest = createTime(c.first), createTime(c.last)
	return c.info, nil
}

// counter counts the entries of a journal.
type counter struct {
	info *executorv1.StoreInfo
	// first and last are the keys of the oldest and the newest task's heads; nil if there is no task.
	first, last []byte
}

// scan counts some entries, and returns the key to continue from; nil at the end.
func (c *counter) scan(t *table, from []byte) []byte {
	cursor := t.ascend(from)
	for n := 0; cursor.next(); n++ {
		k := cursor.key
		if n == scanAtOnce {
			return bytes.Clone(k)
		}
		c.count(k, cursor.value)
		if k[0] == kindTask && len(k) == idSize+2 && k[idSize+1] == partHead {
			if c.first == nil {
				c.first = bytes.Clone(k)
			}
			c.last = append(c.last[:0], k...)
		}
	}
	return nil
}

func (c *counter) count(k, v []byte) {
	what := "indexes"
	switch k[0] {
	case kindTask:
		what = c.taskPart(k)
	case kindPayload, kindLarge, kindChunk:
		what = "payloads"
		if k[0] != kindChunk {
			c.info.Payloads++
		}
	case kindAgent:
		what = "agents"
		c.info.Agents++
	case kindTopic:
		what = "topics"
		if len(k) == idSize+2 && k[idSize+1] == partSettings {
			c.info.Topics++
		}
	case kindOutgoing:
		c.info.Outgoing++
	case kindWebhook, kindPending, kindFailed:
		what = "webhooks"
	case kindStatus:
		status := executorv1.ExecutorStatus(k[max(0, len(k)-idSize-1)])
		c.info.Tasks[strings.TrimPrefix(status.String(), "EXECUTOR_STATUS_")]++
	case kindMeta:
		what = "metadata"
		if bytes.Equal(k, keySchema) && len(v) == 8 {
			c.info.Schema = int32(binary.BigEndian.Uint64(v))
		}
	}
	c.info.Bytes[what] += int64(len(k) + len(v))
}

// taskPart counts an entry of a task, and returns what it is.
func (c *counter) taskPart(k []byte) string {
	if len(k) > idSize+1 {
		switch k[idSize+1] {
		case partRecord:
			c.info.Records++
			return "records"
		case partCommand:
			c.info.Commands++
			return "commands"
		}
	}
	return "tasks"
}

// usedBytes returns the size of the pages that are in use.
func usedBytes(b *bbolt.Bucket) int64 {
	st := b.Stats()
	return int64(st.BranchAlloc+st.LeafAlloc) + int64(4*b.Tx().DB().Info().PageSize)
}

// createTime returns when a task was created, or nil. Its id, a UUID of version 7, contains the time.
func createTime(key []byte) *timestamppb.Timestamp {
	if len(key) < 1+idSize || ownerOf(key).Version() != 7 {
		return nil
	}
	return timestamppb.New(time.Unix(ownerOf(key).Time().UnixTime()))
}
