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

// Info says what is in a journal.
type Info struct {
	Path string
	// Size is the file's, Free what of it can be written again; in bytes.
	Size, Free int64
	// Log is what the files of the log take, which are used again and again; in bytes.
	Log    int64
	Schema int
	// Tasks by status, as in the API without its prefix.
	Tasks map[string]int
	// Records, Commands, Payloads and Agents are how many there are.
	Records, Commands, Payloads, Agents int
	// Bytes of keys and values by what they are for.
	Bytes map[string]int64
	// Oldest and Newest are when the oldest and the newest task were created; zero where there is none.
	Oldest, Newest time.Time
}

// Info reads the whole journal in pieces, beside everything else that goes on.
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
		err := f.view(func(b *table) (err error) {
			if from, err = i.scan(b, from, &first, &last); err != nil || from != nil {
				return err
			}
			i.Free = i.Size - usedBytes(b.file())
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
func (i *Info) scan(b *table, from []byte, first, last *[]byte) ([]byte, error) {
	c := b.Cursor()
	k, v := c.Seek(from)
	for range scanAtOnce {
		if k == nil {
			return nil, nil
		}
		if err := i.count(k, v); err != nil {
			return nil, err
		}
		if k[0] == kindTask && len(k) == idSize+2 && k[idSize+1] == partHead {
			if *first == nil {
				*first = bytes.Clone(k)
			}
			*last = append((*last)[:0], k...)
		}
		k, v = c.Next()
	}
	return bytes.Clone(k), nil
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

// countTask counts a task by the status that its index says.
func (i *Info) countTask(k, v []byte) error {
	// Metadata sorts before users: the schema is known. Version 1 has no checksums.
	if i.Schema >= 2 {
		var err error
		if v, err = unseal(k, v); err != nil {
			return err
		}
	}
	index := &storagev1.TaskIndex{}
	if err := proto.Unmarshal(v, index); err != nil {
		return damaged(name(k), err)
	}
	i.Tasks[strings.TrimPrefix(index.GetStatus().String(), "EXECUTOR_STATUS_")]++
	return nil
}

// usedBytes is what pages that are in use take.
func usedBytes(b *bbolt.Bucket) int64 {
	st := b.Stats()
	return int64(st.BranchAlloc+st.LeafAlloc) + int64(4*b.Tx().DB().Info().PageSize)
}

// createTime reads when a task was created out of its id, a UUID of version 7.
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
