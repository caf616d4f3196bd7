package mcpfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// fields are the members of a server that were not read yet.
type fields struct{ left map[string]json.RawMessage }

func fieldsOf(raw json.RawMessage) (*fields, error) {
	f := &fields{}
	if err := json.Unmarshal(raw, &f.left); err != nil || f.left == nil {
		return nil, errors.New("it is not a JSON object")
	}
	return f, nil
}

// member is where the value of a key goes, and what it must be.
type member struct {
	key, what string
	to        any // a pointer
}

const (
	aText    = "a text"
	yesOrNo  = "true or false"
	textList = "a list of texts"
	texts    = "an object of texts"
)

// take reads members; those that are absent or null leave their values as they are.
func (f *fields) take(members ...member) error {
	for _, m := range members {
		raw, ok := f.left[m.key]
		delete(f.left, m.key)
		if !ok || string(raw) == "null" {
			continue
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(m.to); err != nil {
			return fmt.Errorf("%q is not %s", m.key, m.what)
		}
	}
	return nil
}

// common reads what all transports have.
func (f *fields) common(s *mcppoolv1.McpServer) error {
	enabled := true
	err := f.take(
		member{"disabled", yesOrNo, &s.Disabled},
		member{"enabled", yesOrNo, &enabled},
		member{"trusted", yesOrNo, &s.Trusted},
		member{"autoActivate", yesOrNo, &s.AutoActivate},
		member{"onlyWhenNamed", yesOrNo, &s.OnlyWhenNamed},
		member{"description", aText, &s.Description},
		member{"owner", "a user's name", &s.OwnerSub},
	)
	s.Disabled = s.GetDisabled() || !enabled
	return err
}

// limits reads how long things may take.
func (f *fields) limits(s *mcppoolv1.McpServer) error {
	return cmp.Or(
		f.duration("timeout", 24*time.Hour, &s.CallTimeout),
		f.duration("startTimeout", 10*time.Minute, &s.StartTimeout),
		f.duration("cacheTtl", 24*time.Hour, &s.CacheTtl),
	)
}

// duration reads seconds or a Go duration.
func (f *fields) duration(key string, most time.Duration, to **durationpb.Duration) error {
	var v any
	if err := f.take(member{key, "a duration", &v}); err != nil || v == nil {
		return err
	}
	var d time.Duration
	switch v := v.(type) {
	case float64:
		// Compared as seconds: a large number would overflow a Duration.
		if v > most.Seconds() {
			return fmt.Errorf("%q is more than %v; it counts seconds", key, most)
		}
		d = time.Duration(v * float64(time.Second))
	case string:
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			return fmt.Errorf(`%q is neither a number of seconds nor a duration such as "90s"`, key)
		}
	default:
		return fmt.Errorf(`%q is neither a number of seconds nor a duration such as "90s"`, key)
	}
	if d <= 0 || d > most {
		return fmt.Errorf("%q is not between 0 and %v", key, most)
	}
	*to = durationpb.New(d)
	return nil
}
