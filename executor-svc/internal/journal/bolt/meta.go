package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// The layout of a meta page of bbolt's format 2 (go.etcd.io/bbolt/internal/common, Page and Meta).
const (
	metaStart    = 16 // after the page's header
	metaMagic    = 0xED0CDAED
	metaPageSize = 8
	metaChecksum = 56
	metaSize     = 64
)

// metaProblem returns an error if one of the file's two meta pages is not valid; bbolt silently uses the other page. If
// writing the page was interrupted, nothing is lost, because its transaction was never acknowledged. If the page was damaged later, the
// newest change is missing.
func metaProblem(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	first, firstErr := metaAt(f, 0)
	pageSize := int64(os.Getpagesize())
	if firstErr == nil {
		pageSize = int64(binary.NativeEndian.Uint32(first[metaPageSize:]))
	}
	_, secondErr := metaAt(f, pageSize)
	if (firstErr == nil) == (secondErr == nil) {
		return nil // both are valid, or bbolt refuses the file
	}
	return fmt.Errorf("one of its two meta pages is not valid (%w): either a write was interrupted, and nothing is missing, or the page was "+
		"damaged later, and the newest change is missing; check the tasks that ran last", errors.Join(firstErr, secondErr))
}

func metaAt(f *os.File, at int64) ([]byte, error) {
	meta := make([]byte, metaSize)
	if _, err := f.ReadAt(meta, at+metaStart); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	sum := fnv.New64a()
	sum.Write(meta[:metaChecksum])
	if binary.NativeEndian.Uint32(meta) != metaMagic || binary.NativeEndian.Uint64(meta[metaChecksum:]) != sum.Sum64() {
		return nil, fmt.Errorf("the one at byte %d", at)
	}
	return meta, nil
}
