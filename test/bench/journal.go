package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"
)

// boltMeta is what the header of a bbolt file says. It is read beside the process that has the file, without its lock.
type boltMeta struct {
	// transaction is the number of the newest transaction.
	transaction uint64
	// used is how many bytes of the file have ever been used; the file itself grows in leaps.
	used int64
}

// metaPage is the beginning of a meta page (bbolt 1.5, internal/common/meta.go).
type metaPage struct {
	Header                          [16]byte
	Magic, Version, PageSize, Flags uint32
	Root                            [16]byte
	Freelist, HighWater, TxID       uint64
}

const metaMagic = 0xED0CDAED

// readMeta reads the newer of the two headers.
func readMeta(path string) (newest boltMeta, err error) {
	f, err := os.Open(path)
	if err != nil {
		return newest, err
	}
	defer func() { _ = f.Close() }()
	raw, found := make([]byte, binary.Size(metaPage{})), false
	for _, offset := range []int64{0, int64(os.Getpagesize())} {
		var page metaPage
		if _, err = f.ReadAt(raw, offset); err == nil {
			_, err = binary.Decode(raw, binary.LittleEndian, &page)
		}
		if err != nil {
			return newest, fmt.Errorf("reading %s: %w", path, err)
		}
		if page.Magic == metaMagic && (!found || page.TxID > newest.transaction) {
			newest, found = boltMeta{transaction: page.TxID, used: int64(page.PageSize) * int64(page.HighWater)}, true
		}
	}
	if !found {
		err = fmt.Errorf("reading %s: there is no bbolt header in it", path)
	}
	return newest, err
}

// entry is one entry of a file.
type entry struct{ bucket, key, value []byte }

// multiply copies everything of a task under n other ids, which are as new as those of tasks.
func multiply(path, id string, n int) (last string, err error) {
	original, err := uuid.Parse(id)
	if err != nil {
		return "", err
	}
	raw := original[:]
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
				copied := original
				// Behind the time, the version and the variant: the order stays that of creation.
				binary.BigEndian.PutUint32(copied[12:], uint32(i))
				last = copied.String()
				if err := putCopies(tx, entries, raw, copied[:], id, last); err != nil {
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

// putCopies writes entries with one id in place of another, in bytes and in text, and computes the checksums again.
func putCopies(tx *bbolt.Tx, entries []entry, from, to []byte, fromText, toText string) error {
	renamed := func(v []byte) []byte {
		return bytes.ReplaceAll(bytes.ReplaceAll(v, from, to), []byte(fromText), []byte(toText))
	}
	for _, e := range entries {
		key, value := bytes.ReplaceAll(e.key, from, to), e.value
		if isSealed(e.key, value) {
			value = withChecksum(key, renamed(value[:len(value)-checksumSize]))
		} else {
			value = renamed(value)
		}
		if err := tx.Bucket(e.bucket).Put(key, value); err != nil {
			return err
		}
	}
	return nil
}

// checksumSize is the size of the checksum that values end with: CRC-32C over key and value.
const checksumSize = 4

func isSealed(key, value []byte) bool {
	n := len(value) - checksumSize
	return n >= 0 && bytes.Equal(withChecksum(key, value[:n]), value)
}

func withChecksum(key, value []byte) []byte {
	sum := crc32.Checksum(append(bytes.Clone(key), value...), crc32.MakeTable(crc32.Castagnoli))
	return binary.LittleEndian.AppendUint32(bytes.Clone(value), sum)
}
