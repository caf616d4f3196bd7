package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// boltMeta is what the header of a bbolt file says. It is read beside the process that has the file, without its lock.
type boltMeta struct {
	// transaction is the number of the newest transaction.
	transaction uint64
	// used is how many bytes of the file have ever been used; the file itself grows in leaps.
	used int64
}

// The layout of a meta page (bbolt 1.5, internal/common/meta.go): a page header of 16 bytes, magic, version, page size and
// flags of 4 each, the root bucket of 16, then freelist, high-water mark, transaction and checksum of 8 each.
const (
	metaMagic    = 0xED0CDAED
	metaStart    = 16
	metaPageSize = metaStart + 8
	metaHigh     = metaStart + 40
	metaTxID     = metaStart + 48
	metaEnd      = metaStart + 64
)

var errNoMeta = errors.New("there is no bbolt header in it")

// readMeta reads the newer of the two headers.
func readMeta(path string) (newest boltMeta, err error) {
	f, err := os.Open(path)
	if err != nil {
		return newest, err
	}
	defer func() { _ = f.Close() }()
	found := false
	for _, offset := range []int64{0, int64(os.Getpagesize())} {
		raw := make([]byte, metaEnd)
		if _, err := f.ReadAt(raw, offset); err != nil {
			return newest, fmt.Errorf("reading %s: %w", path, errors.Join(err, ignoreEOF(err)))
		}
		if binary.LittleEndian.Uint32(raw[metaStart:]) != metaMagic {
			continue
		}
		tx := binary.LittleEndian.Uint64(raw[metaTxID:])
		if !found || tx > newest.transaction {
			size := int64(binary.LittleEndian.Uint32(raw[metaPageSize:]))
			newest = boltMeta{transaction: tx, used: size * int64(binary.LittleEndian.Uint64(raw[metaHigh:]))}
			found = true
		}
	}
	if !found {
		return newest, fmt.Errorf("reading %s: %w", path, errNoMeta)
	}
	return newest, nil
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return errNoMeta
	}
	return nil
}
