package wal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

const (
	// A file grows ahead of its records, because a write that does not change the size is durable sooner. Its growth doubles the size, within
	// these bounds.
	minGrowth, maxGrowth = 64 << 10, 1 << 20
	// maxReused is the size to which a larger file is truncated when it is reused.
	maxReused = 4 << 20
	// maxReusedBuffer bounds the buffer that is reused.
	maxReusedBuffer = 256 << 10
)

// File is a file that a log is written to.
type File interface {
	io.WriterAt
	Truncate(size int64) error
	// Sync makes the written bytes and the size durable.
	Sync() error
	Close() error
}

// Log is a log open for writing. Only one goroutine at a time may call its methods.
type Log struct {
	id    ID
	files [2]struct {
		File
		size int64
	}
	current int
	end     int64 // of header and records in the current file; 0: the file has no header yet
	last    uint64
	buf     []byte
}

// Create creates a log whose first record will have the number last+1. It replaces existing files, whose records must no longer be
// needed.
func Create(path string, id ID, last uint64) (*Log, error) {
	return CreateOn(path, id, last, func(name string) (File, error) {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		return diskFile{f}, err
	})
}

// CreateOn is Create with a function that opens the files.
func CreateOn(path string, id ID, last uint64, open func(name string) (File, error)) (_ *Log, err error) {
	l := &Log{id: id, last: last}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("creating the log of %s: %w", path, err), l.Close())
		}
	}()
	names := Paths(path)
	// The existing log stays complete until the new one replaces it.
	fresh := names[0] + ".new"
	if l.files[0].File, err = open(fresh); err != nil {
		l.files[0].File = nil
		return nil, err
	}
	header := appendHeader(nil, id, last+1)
	if _, err := l.files[0].WriteAt(header, 0); err != nil {
		return nil, err
	}
	if err := l.files[0].Sync(); err != nil {
		return nil, err
	}
	if err := os.Rename(fresh, names[0]); err != nil {
		return nil, err
	}
	if l.files[1].File, err = open(names[1]); err != nil {
		l.files[1].File = nil
		return nil, err
	}
	l.end, l.files[0].size = headerSize, headerSize
	return l, SyncFolder(filepath.Dir(path))
}

// SyncFolder makes the directory entries of a folder durable.
func SyncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Last returns the number of the newest written record, even if it could not be made durable.
func (l *Log) Last() uint64 { return l.last }

// Size returns the bytes of header and records in the current file.
func (l *Log) Size() int64 { return l.end }

// Append writes a record and makes it durable. After an error the record is not stored, unless Last counts it. In that case the record was
// written but may not be durable, and no record may be appended before the next Rotate.
func (l *Log) Append(payload []byte) error {
	f := &l.files[l.current]
	l.buf = l.buf[:0]
	if l.end == 0 {
		l.buf = appendHeader(l.buf, l.id, l.last+1)
	}
	l.buf = appendRecord(l.buf, &l.id, l.last+1, payload)
	written := len(l.buf)
	size := f.size
	if end := l.end + int64(written); end > size {
		size = max(end, size+min(max(size, minGrowth), maxGrowth))
		l.buf = slices.Grow(l.buf, int(size-end))[:written+int(size-end)]
		clear(l.buf[written:])
	}
	_, err := f.WriteAt(l.buf, l.end)
	if err != nil && len(l.buf) > written {
		// The disk may have room for the record, if not for growing.
		size = l.end + int64(written)
		_, err = f.WriteAt(l.buf[:written], l.end)
	}
	if cap(l.buf) > maxReusedBuffer {
		l.buf = nil
	}
	if err != nil {
		return errors.Join(fmt.Errorf("appending to the log: %w", err), f.Truncate(f.size))
	}
	f.size = max(f.size, size)
	l.last++
	if err := f.Sync(); err != nil {
		return fmt.Errorf("making the log durable: %w", err)
	}
	l.end += int64(written)
	return nil
}

// Rotate makes the next record go to the other file, whose records must no longer be needed.
func (l *Log) Rotate() {
	if l.end == 0 {
		return // this file has no record
	}
	l.current, l.end = 1-l.current, 0
	f := &l.files[l.current]
	// If Truncate fails, the file is truncated when it is reused again.
	if f.size > maxReused && f.Truncate(maxReused) == nil {
		f.size = maxReused
	}
}

// Close closes the files.
func (l *Log) Close() (err error) {
	for i := range l.files {
		if f := l.files[i].File; f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// diskFile is a File on disk.
type diskFile struct{ *os.File }

// Sync implements File.
func (f diskFile) Sync() error { return datasync(f.File) }
