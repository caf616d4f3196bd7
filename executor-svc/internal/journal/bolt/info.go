package bolt

import (
	"context"
	"errors"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal/wal"
)

// Info describes the journal. The entries are counted already, but for those of the log.
func (s *Store) Info(context.Context) (*executorv1.StoreInfo, error) { return info(s.path, s.file) }

// FileInfo describes a journal that no process has open.
func FileInfo(path string) (*executorv1.StoreInfo, error) {
	f, _, err := openToRead(path)
	if err != nil {
		return nil, err
	}
	i, err := info(path, f)
	return i, errors.Join(err, f.db.Close())
}

func info(path string, f *file) (i *executorv1.StoreInfo, err error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	err = f.view(func(t *table) error {
		i = countsOf(t).StoreInfo
		if c := t.ascend([]byte{kindTask}); c.next() && c.key[0] == kindTask {
			i.Oldest = createTime(c.key)
		}
		if c := t.descend([]byte{kindTask + 1}); c.next() && c.key[0] == kindTask {
			i.Newest = createTime(c.key)
		}
		tx, pages := t.base.Tx(), f.db.Stats()
		i.Path, i.SizeBytes, i.LogBytes = path, stat.Size(), wal.Size(path)
		i.FreeBytes = max(0, stat.Size()-tx.Size()) + int64(pages.FreePageN+pages.PendingPageN)*int64(tx.DB().Info().PageSize)
		return nil
	})
	return i, err
}

// createTime returns when a task was created, or nil. Its id, a UUID of version 7, contains the time.
func createTime(key []byte) *timestamppb.Timestamp {
	if len(key) < 1+idSize || ownerOf(key).Version() != 7 {
		return nil
	}
	return timestamppb.New(time.Unix(ownerOf(key).Time().UnixTime()))
}
