package registry

import (
	"encoding/json"
	"fmt"
)

// recordVersion is the version of everything stored. A reader refuses what is newer than itself.
const recordVersion = 1

// record is a server as stored.
type record struct {
	Version int `json:"v"`
	Server
}

// activation is a user's explicit word on a server.
type activation struct {
	Version int  `json:"v"`
	Active  bool `json:"active"`
}

// encode marshals a stored value; those are plain data, for which that cannot fail.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// decode reads a stored value after a look at its version.
func decode(raw []byte, to any) error {
	var head struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	if head.Version < 1 || head.Version > recordVersion {
		return fmt.Errorf("it was written by a newer version of this program (format %d); use that one", head.Version)
	}
	return json.Unmarshal(raw, to)
}
