// Package wal is a write-ahead log: a record is durable once Append returns. It uses two files in turn and reuses their space, so
// that a write rarely changes the size of a file and costs one fdatasync.
//
// A file begins with a header, and records follow:
//
//	header  "pawlwal1", the log's id (16), the number of the first record (8), CRC-32C of all that (4), zeroes up to 64
//	record  length of the payload (4), CRC-32C (4), number (8), payload, zeroes up to a multiple of 8
//
// Record numbers grow by one and never repeat, and each checksum covers the id, the length, the number and the payload, so that
// bytes of an earlier use of the file are not taken for a record. Integers are little-endian.
//
// The package must not know the content or the use of records.
package wal
