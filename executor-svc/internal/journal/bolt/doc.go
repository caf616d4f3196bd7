// Package bolt is the journal in one bbolt file with a write-ahead log in front of it (package wal), for one process.
//
// A batch of changes is durable and visible once it is one record of the log. The changes are kept in an overlay in memory,
// and readers see them over the file. In the background they are applied to the file in larger transactions, so that a key
// that changes often is written there once; logged.go has the details. Opening applies what a crash left in the log, and
// closing applies everything, so that a closed journal is the file alone.
//
// Keys are flat and binary in one bucket, so that everything of a task lies together and one commit touches few pages. An
// id is 16 bytes; numbers, times and seqs are 8 bytes that sort in their order:
//
//	m<name>                         metadata: schema, generation of claims, the log and how far it is applied
//	t<id>\x00                       head
//	t<id>\x01                       checkpoint, behind its state
//	t<id>\x02<seq>                  record, by the seq of its first fact
//	t<id>\x03<number>               command in the inbox
//	t<id>\x05<sha-256>              the task refers to this payload
//	a<id>                           the task is due: since which number, why, and its user
//	d<time><id>                     its deadline
//	e<time><id>                     when it ended
//	u<user>\x00<id>                 index of a user's tasks: status and agent
//	c<user>\x00<conversation>\x00<id>  index of a conversation's tasks
//	r<user>\x00<request id>         the task that this request created
//	w<user>\x00                      how many requests a user has made
//	w<user>\x00<place>              when the newest request with this place in the ring was made (admit.go)
//	p<sha-256>                      payload
//	q<sha-256><id>                  this task refers to the payload
//	g<user>\x00<agent id>           agent
//
// Values are messages in wire form whose large strings are payloads (codec.go), and end with a checksum over key and value.
// Claims and their order are in memory only: what is due is read from the index when the file is opened.
//
// The package must not know what is in a checkpoint beyond what the indexes need.
package bolt
