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
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal/wal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Info describes what is in a journal.
type Info struct {
	Path string
	// Size is the size of the file, Free how much of it can be used again; in bytes.
	Size, Free int64
	// Log is the size of the log's files, in bytes.
	Log    int64
	Schema int
	// Tasks by status, as in the API without its prefix.
	Tasks map[string]int
	// Records, Commands, Payloads and Agents are how many there are.
	Records, Commands, Payloads, Agents int
	// Bytes are the sizes of keys and values by kind of entry.
	Bytes map[string]int64
	// Oldest and Newest are when the oldest and the newest task were created; zero if there is no task.
	Oldest, Newest time.Time
}

// Info reads the whole journal in pieces, so that other work goes on.
func (s *Store) Info(ctx context.Context) (Info, error) {
	return info(ctx, s.path, s.file)
}

// FileInfo reads a journal that no process has open.
func FileInfo(ctx context.Context, path string) (Info, error) {
	f, _, err := openToRead(path)
	if err != nil {
		return Info{}, err
	}
	i, err := info(ctx, path, f)
	return i, errors.Join(err, f.db.Close())
}

func info(ctx context.Context, path string, f *file) (Info, error) {
	i := Info{Path: path, Tasks: map[string]int{}, Bytes: map[string]int64{}}
	stat, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	i.Size, i.Log = stat.Size(), wal.Size(path)
	var first, last []byte
	for from := []byte{0}; from != nil; {
		if err := ctx.Err(); err != nil {
			return Info{}, err
		}
		err := f.view(func(t *table) (err error) {
			if from, err = i.scan(t, from, &first, &last); err != nil || from != nil {
				return err
			}
			i.Free = i.Size - usedBytes(t.base)
			return nil
		})
		if err != nil {
			return Info{}, err
		}
	}
	i.Oldest, i.Newest = createTime(first), createTime(last)
	return i, nil
}

// scan counts some entries, and returns where to go on; nil at the end.
func (i *Info) scan(t *table, from []byte, first, last *[]byte) ([]byte, error) {
	c := t.ascend(from)
	for n := 0; c.next(); n++ {
		k := c.key
		if n == scanAtOnce {
			return bytes.Clone(k), nil
		}
		if err := i.count(k, c.value); err != nil {
			return nil, err
		}
		if k[0] == kindTask && len(k) == idSize+2 && k[idSize+1] == partHead {
			if *first == nil {
				*first = bytes.Clone(k)
			}
			*last = append((*last)[:0], k...)
		}
	}
	return nil, nil
}

func (i *Info) count(k, v []byte) error {
	what := "indexes"
	switch k[0] {
	case kindTask:
		what = "tasks"
		if len(k) > idSize+1 {
			switch k[idSize+1] {
			case partRecord:
				what = "records"
				i.Records++
			case partCommand:
				what = "commands"
				i.Commands++
			}
		}
	case kindPayload:
		what = "payloads"
		i.Payloads++
	case kindAgent:
		what = "agents"
		i.Agents++
	case kindUser:
		if err := i.countTask(k, v); err != nil {
			return err
		}
	case kindMeta:
		what = "metadata"
		if bytes.Equal(k, keySchema) && len(v) == 8 {
			i.Schema = int(binary.BigEndian.Uint64(v))
		}
	}
	i.Bytes[what] += int64(len(k) + len(v))
	return nil
}

// countTask counts a task by the status in its index.
func (i *Info) countTask(k, v []byte) error {
	v, err := verifyChecksum(k, v)
	if err != nil {
		return err
	}
	index := &storagev1.TaskIndex{}
	if err := proto.Unmarshal(v, index); err != nil {
		return damaged(name(k), err)
	}
	i.Tasks[strings.TrimPrefix(index.GetStatus().String(), "EXECUTOR_STATUS_")]++
	return nil
}

// usedBytes returns the size of the pages that are in use.
func usedBytes(b *bbolt.Bucket) int64 {
	st := b.Stats()
	return int64(st.BranchAlloc+st.LeafAlloc) + int64(4*b.Tx().DB().Info().PageSize)
}

// createTime returns when a task was created. Its id, a UUID of version 7, contains the time.
func createTime(key []byte) time.Time {
	if len(key) < 1+idSize {
		return time.Time{}
	}
	id := taskOf(key)
	if id.Version() != 7 {
		return time.Time{}
	}
	sec, nsec := id.Time().UnixTime()
	return time.Unix(sec, nsec)
}
