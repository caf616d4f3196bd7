// Package bolt is the journal in one bbolt file with a log in front of it (package wal): no server, one process.
//
// A batch of changes is durable, and seen, once it is one record of the log; the changes are kept in memory, in order, and
// readers see them over the file. In the background they are applied to the file in larger transactions, each of which says
// up to which record it goes; then that part of the log is used again. What was changed again meanwhile is applied once.
// Opening applies what a crash left in the log, and closing all there is: a journal that was closed is the file alone.
//
// Keys are flat and binary in one bucket, so that everything of a task lies together and one commit touches few pages. An
// id is 16 bytes; a number, time or seq 8, so that it sorts:
//
//	m<name>                         metadata: schema, generation of claims, the log and how far it is applied
//	t<id>\x00                       head
//	t<id>\x01                       checkpoint: what each commit changes, behind its state
//	t<id>\x02<seq>                  record, by the seq of its first fact
//	t<id>\x03<number>               command in the inbox
//	t<id>\x04                       notes: what of the checkpoint hardly ever changes
//	t<id>\x05<sha-256>              the task refers to this payload
//	a<id>                           the task is due: since which number, why, whose it is
//	d<time><id>                     its deadline
//	e<time><id>                     when it ended
//	u<user>\x00<id>                 index of a user's tasks: status and agent
//	c<user>\x00<conversation>\x00<id>  index of a conversation's tasks
//	r<user>\x00<request id>         the task that this request created
//	w<user>\x00<number>             when a request of the window was made
//	p<sha-256>                      payload
//	q<sha-256><id>                  the payload is referred to by this task
//	g<user>\x00<agent id>           agent
//
// Values are packed (package pack) and end with a checksum over key and value. Claims, and whose turn it is, are in memory
// only: what is due is read from the index when the file is opened, and kept up with what becomes durable.
//
// It must not know what is in a checkpoint beyond what indexes need.
package bolt
