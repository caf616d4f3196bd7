package stream

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// JSON returns a message in one line without blanks. protojson varies its blanks from build to build on purpose; output that
// people search and compare should not vary.
func JSON(m proto.Message) ([]byte, error) {
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	var compact bytes.Buffer
	compact.Grow(len(data) + 1) // a newline often follows
	if err := json.Compact(&compact, data); err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return compact.Bytes(), nil
}
