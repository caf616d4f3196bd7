// Package wal is a write-ahead log: records that are durable once Append returns, in two files that take turns and are used
// again, so that a write changes no file's size and one fdatasync is all that it costs.
//
// A file begins with a header, and then holds records one behind the other:
//
//	header  "pawlwal1", the log's id (16), the number of the first record (8), CRC-32C of all that (4), zeroes up to 64
//	record  length of the payload (4), CRC-32C (4), number (8), payload, zeroes up to a multiple of 8
//
// Numbers grow by one and never come twice, and each checksum covers the id, the length, the number and the payload: what
// an earlier use of the file left behind is not mistaken for a record. Numbers are in little-endian order.
//
// It must not know what is in a record, nor what it is applied to.
package wal
