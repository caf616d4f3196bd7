package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// startup measures from exec to serving, with an empty journal and with one of many finished tasks, in turns.
func (b *bench) startup(ctx context.Context, d *document) error {
	n := b.few(100_000)
	full, id, err := b.fullJournal(ctx, n)
	if err != nil {
		return err
	}
	empty, err := b.folder()
	if err != nil {
		return err
	}
	took := map[string][]float64{}
	for range max(b.rounds, 3) {
		for _, folder := range []string{empty, full} {
			t, err := b.timeToServe(ctx, folder, id, folder == full)
			if err != nil {
				return err
			}
			took[folder] = append(took[folder], milliseconds(t))
		}
	}
	meta, err := readMeta(filepath.Join(full, "journal.db"))
	if err != nil {
		return err
	}
	d.text("The executor from exec until its health check says SERVING; the file lies in the page cache.")
	d.table([]string{"journal", "ms", "target"}, [][]string{
		{"empty", figure(median(took[empty])), ""},
		{fmt.Sprintf("%d finished tasks of ten steps, %d MB", n, meta.used>>20), figure(median(took[full])), "< 300 at 100,000"},
	})
	return nil
}

// timeToServe starts the executor alone; planner and pool need not be there.
func (b *bench) timeToServe(ctx context.Context, folder, id string, full bool) (took time.Duration, err error) {
	addrs, err := freeAddrs(ctx, 3)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	p, err := b.start("executor", nil, b.programs.executor, "--grpc", addrs[0], "--data", folder, "--planner", addrs[1], "--pool", addrs[2])
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.await(ctx, func(ctx context.Context) bool { return serving(ctx, addrs[0]) }); err != nil {
		return 0, err
	}
	took = time.Since(began)
	if full {
		err = b.checkCopy(ctx, addrs[0], id)
	}
	return took, err
}

// checkCopy sees that a task that was copied is one.
func (b *bench) checkCopy(ctx context.Context, addr, id string) error {
	p := &pawl{addr: addr}
	if err := p.dial(); err != nil {
		return err
	}
	defer func() { _ = p.conn.Close() }()
	steps, err := p.tasks.ListSteps(ctx, &executorv1.ListStepsRequest{Id: id})
	if err != nil {
		return fmt.Errorf("a copied task: %w", err)
	}
	if len(steps.GetSteps()) < stepsPerTask {
		return fmt.Errorf("a copied task has %d steps", len(steps.GetSteps()))
	}
	return nil
}

// fullJournal runs one task and copies it: what would take minutes to run takes seconds to write. It returns the folder
// and the id of the last copy.
func (b *bench) fullJournal(ctx context.Context, n int) (folder, id string, err error) {
	p, err := b.startFour(ctx)
	if err != nil {
		return "", "", err
	}
	var original string
	err = p.run(ctx, echo(), func(e *executorv1.ExecutorEvent) { original = e.GetTaskId() })
	if err := errors.Join(err, p.stop()); err != nil {
		return "", "", err
	}
	b.logf("copying a task %d times", n)
	id, err = multiply(p.journal, original, n)
	return filepath.Dir(p.journal), id, err
}

// entry is one entry of a file.
type entry struct{ bucket, key, value []byte }

// multiply copies everything of a task under n other ids, which are as new as those of tasks.
func multiply(path, id string, n int) (last string, err error) {
	raw, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(id), []byte("-"), nil)))
	if err != nil {
		return "", err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType, NoSync: true})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Sync(), db.Close()) }()
	entries, err := entriesOf(db, raw)
	if err != nil {
		return "", err
	}
	const perTransaction = 2000
	for from := 0; from < n; from += perTransaction {
		err := db.Update(func(tx *bbolt.Tx) error {
			for i := from; i < min(from+perTransaction, n); i++ {
				copied := bytes.Clone(raw)
				// Behind the time, the version and the variant: the order stays that of creation.
				binary.BigEndian.PutUint32(copied[12:], uint32(i))
				last = textID(copied)
				if err := putCopies(tx, entries, raw, copied, id, last); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return last, nil
}

// entriesOf are those with the id in their key.
func entriesOf(db *bbolt.DB, id []byte) (all []entry, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
			return bucket.ForEach(func(k, v []byte) error {
				if bytes.Contains(k, id) && v != nil {
					all = append(all, entry{bytes.Clone(name), bytes.Clone(k), bytes.Clone(v)})
				}
				return nil
			})
		})
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("the journal has no entry of task %x", id)
	}
	return all, err
}

// putCopies writes entries with one id in place of another, in bytes and in text, and seals again what was sealed.
func putCopies(tx *bbolt.Tx, entries []entry, from, to []byte, fromText, toText string) error {
	renamed := func(v []byte) []byte {
		return bytes.ReplaceAll(bytes.ReplaceAll(v, from, to), []byte(fromText), []byte(toText))
	}
	for _, e := range entries {
		key, value := bytes.ReplaceAll(e.key, from, to), e.value
		if isSealed(e.key, value) {
			value = seal(key, renamed(value[:len(value)-sealSize]))
		} else {
			value = renamed(value)
		}
		if err := tx.Bucket(e.bucket).Put(key, value); err != nil {
			return err
		}
	}
	return nil
}

// sealSize is the size of the checksum that values end with: CRC-32C over key and value.
const sealSize = 4

func isSealed(key, value []byte) bool {
	n := len(value) - sealSize
	return n >= 0 && bytes.Equal(seal(key, value[:n]), value)
}

func seal(key, value []byte) []byte {
	sum := crc32.Checksum(append(bytes.Clone(key), value...), crc32.MakeTable(crc32.Castagnoli))
	return binary.LittleEndian.AppendUint32(bytes.Clone(value), sum)
}

func textID(raw []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}
