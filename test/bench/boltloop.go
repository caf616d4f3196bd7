package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"path/filepath"
	"sync/atomic"

	"go.etcd.io/bbolt"
)

// boltLoop is what the store alone reaches: the same bytes in as many commits, shared between writers by a group
// committer without a timer, and nothing else.
type boltLoop struct {
	db    *bbolt.DB
	shape shape
	noise []byte // values that do not compress and cost nothing to make
	tasks atomic.Uint64
	ops   chan *boltOp
	done  chan struct{}
}

// boltOp is one commit of one task.
type boltOp struct {
	puts   []boltPut
	result chan error
}

type boltPut struct{ key, value []byte }

// maxBatch bounds what one fsync carries, as in the executor.
const maxBatch = 1024

func (b *bench) startBoltLoop(s shape) (*boltLoop, error) {
	dir, err := b.folder()
	if err != nil {
		return nil, err
	}
	db, err := bbolt.Open(filepath.Join(dir, "bare.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("bench"))
		return err
	})
	l := &boltLoop{db: db, shape: s, noise: make([]byte, s.checkpoint+s.records+s.head+s.index), ops: make(chan *boltOp, maxBatch), done: make(chan struct{})}
	if _, random := rand.Read(l.noise); err == nil {
		err = random
	}
	go l.commit()
	return l, err
}

func (l *boltLoop) close() error {
	close(l.ops)
	<-l.done
	return l.db.Close()
}

// commit writes everything that came while the last batch was written.
func (l *boltLoop) commit() {
	defer close(l.done)
	var batch []*boltOp
	for op := range l.ops {
		batch = append(batch[:0], op)
		for waiting := len(l.ops); waiting > 0 && len(batch) < maxBatch; waiting-- {
			if next, ok := <-l.ops; ok {
				batch = append(batch, next)
			}
		}
		err := l.db.Update(func(tx *bbolt.Tx) error {
			bucket := tx.Bucket([]byte("bench"))
			for _, op := range batch {
				for _, p := range op.puts {
					if err := bucket.Put(p.key, p.value); err != nil {
						return err
					}
				}
			}
			return nil
		})
		for _, op := range batch {
			op.result <- err
		}
	}
}

// run writes one task, one commit after the other.
func (l *boltLoop) run(ctx context.Context) error {
	// Ids grow, as those of tasks do.
	id := make([]byte, idLength)
	binary.BigEndian.PutUint64(id, l.tasks.Add(1))
	for n := range l.shape.commits {
		op := &boltOp{puts: l.puts(id, n), result: make(chan error, 1)}
		l.ops <- op
		if err := <-op.result; err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// puts are the entries of the n-th commit.
func (l *boltLoop) puts(id []byte, n int) []boltPut {
	key := func(part byte, more ...byte) []byte {
		return append(append(append([]byte{taskKind}, id...), part), more...)
	}
	const short, long = idLength + 2, idLength + 10 // of the keys, which the sizes include
	puts := []boltPut{
		{key(partCheckpoint), l.value(l.shape.checkpoint - short)},
		{key(partRecord, binary.BigEndian.AppendUint64(nil, uint64(n))...), l.value(l.shape.records/l.shape.commits - long)},
	}
	if n == 0 {
		puts = append(puts, boltPut{key(partHead), l.value(l.shape.head - short)}, boltPut{append([]byte{'u'}, id...), l.value(l.shape.index - idLength - 1)})
	}
	return puts
}

func (l *boltLoop) value(size int) []byte { return l.noise[:max(size, 1)] }
