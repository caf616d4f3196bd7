package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// indexOlder adds the indexes that files with a schema version before 8 do not have, from the values that their index of users has.
func indexOlder(b *counted) error {
	if v := b.Get(keySchema); len(v) != 8 || binary.BigEndian.Uint64(v) >= 8 {
		return nil
	}
	var keys, values [][]byte // a bucket must not change while a cursor is used
	c := b.Cursor()
	for k, v := c.Seek([]byte{kindUser}); k != nil && k[0] == kindUser; k, v = c.Next() {
		keys, values = append(keys, bytes.Clone(k)), append(values, bytes.Clone(v))
	}
	for i, k := range keys {
		value, err := verifyChecksum(k, values[i])
		index := &storagev1.TaskIndex{}
		if err != nil || proto.Unmarshal(value, index) != nil || len(k) < idSize+2 {
			continue // a check reports that the task's other entries are missing
		}
		user, id := string(k[1:len(k)-idSize-1]), uuid.UUID(k[len(k)-idSize:])
		err = errors.Join(b.Put(k, nil), b.Put(statusKey(user, index.GetStatus(), id), nil))
		if agent := index.GetAgentId(); agent != "" {
			err = errors.Join(err, b.Put(append(agentTasksPrefix(user, agent), id[:]...), nil))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
