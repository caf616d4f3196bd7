package main

import (
	"encoding/binary"
	"fmt"
	"os"
)

// boltMeta is the header of a bbolt file. It is read without the file's lock, while another process has the file open.
type boltMeta struct {
	transaction uint64 // the number of the newest transaction
	used        int64  // bytes of the file up to the highest page ever used
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
func readMeta(path string) (newest boltMeta) {
	f := must(os.Open(path))
	defer func() { _ = f.Close() }()
	raw := make([]byte, binary.Size(metaPage{}))
	for _, offset := range []int64{0, int64(os.Getpagesize())} {
		var page metaPage
		must(f.ReadAt(raw, offset))
		must(binary.Decode(raw, binary.LittleEndian, &page))
		if page.Magic == metaMagic && page.TxID >= newest.transaction {
			newest = boltMeta{transaction: page.TxID, used: int64(page.PageSize) * int64(page.HighWater)}
		}
	}
	if newest.used == 0 {
		check(fmt.Errorf("reading %s: there is no bbolt header in it", path))
	}
	return newest
}
