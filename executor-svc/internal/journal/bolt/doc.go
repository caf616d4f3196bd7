// Package bolt is the journal in one bbolt file with a write-ahead log in front of it (package wal), for one process.
//
// A batch of changes becomes durable as one record of the log, and then visible. The changes are kept in an overlay in memory,
// whose entries hide those of the file. In the background they are applied to the file in larger transactions, so that a key that
// changes often is written there less often; logged.go has the details. Opening applies the records that a crash left in the log.
// Closing applies everything, so that a closed journal is the file alone.
//
// Keys are flat and binary in one bucket, so that the entries of a task are adjacent and a commit touches few pages. An id has
// 16 bytes; numbers, times and seqs have 8 bytes that sort in their order:
//
//	m<name>                         metadata: schema, generation of claims, the log and how far it is applied, counts of all entries
//	t<id>\x00                       head
//	t<id>\x01                       a few fields of the checkpoint, then the checkpoint
//	t<id>\x02<seq>                  record, by the seq of its first fact
//	t<id>\x03<number>               command in the inbox
//	t<id>\x05<sha-256>              the task refers to this payload
//	a<id>                           the task is due: its place in the order, why, its user, and its turn
//	d<time><id>                     a task's deadline
//	e<time><id>                     a task's end
//	u<user>\x00<id>                 index of a user's tasks
//	i<user>\x00<status><id>         index of a user's tasks by status, which is one byte
//	f<user>\x00<agent>\x00<id>      index of an agent's tasks
//	c<user>\x00<conversation>\x00<id>  index of a conversation's tasks
//	r<user>\x00<request id>         the task that this request created
//	w<user>\x00                      the number of requests of a user that were counted
//	w<user>\x00<place>              the time of the newest request with this place in the ring (admit.go)
//	n<user>\x00…                    the same for the user's posts
//	p<sha-256>                      payload
//	q<sha-256><id>                  the task or topic refers to this payload
//	g<user>\x00<agent id>           agent
//	o<id>\x00                       settings of a topic
//	o<id>\x01                       its state, which each post changes
//	o<id>\x02<seq>                  record of facts, by the seq of the first
//	o<id>\x03<seq>                  the fact is a message
//	o<id>\x04<message id>           the message's seq
//	o<id>\x05<sha-256>              the topic refers to this payload
//	o<id>\x06<agent>\x00<seq>       an agent's summary, by the seq that it reaches to
//	h<user>\x00<time><id>           index of a participant's topics, by their newest messages
//	y<user>\x00<request id>         the topic that this request created
//	v<time><id>                     an archived topic, by its newest message
//	x<number>                       outbox: a message that waits to be dispatched
//	s<user>\x00<id>                 webhook
//	b<id><number>                   outbox: a delivery of a webhook that is pending, stored with its event
//	j<id><number>                   a delivery that has failed
//
// Messages are stored in wire form, without their large strings, which are payloads (codec.go). Every value except the schema
// version ends with a checksum over key and value; entries whose key says everything have no value. Claims are in memory only;
// opening reads the tasks that are due from their index. Nothing of a topic is in memory. Of a webhook, its key is.
//
// The package must not know more of a checkpoint than the indexes need.
package bolt
