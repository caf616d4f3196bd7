// Package bolt is the journal in one bbolt file: no server, one process.
//
// Keys are flat and binary in one bucket, so that everything of a task lies together and one commit touches few pages:
//
//	m<name>                     metadata: the schema's version
//	t<task id>\x00              head
//	t<task id>\x01              checkpoint, behind its rev (8 bytes)
//	t<task id>\x02<seq>         record, by the seq of its first fact
//	t<task id>\x03<number>      command in the inbox
//	a<task id>                  the task is runnable
//	u<user>\x00<task id>        index of a user's tasks
//	c<user>\x00<conv>\x00<task id>  index of a conversation's tasks
//	r<user>\x00<request id>     task created by that request
//	g<user>\x00<agent id>       agent
//
// It must not know what is in a checkpoint beyond what indexes need.
package bolt
