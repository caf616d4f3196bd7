package call

import (
	"encoding/json"

	"pawl.dev/services/strictjson"
)

// suggested adds to what was filled into a form what the form suggests for all else (SEP-1034): who accepts it without a word
// about a value accepts that one. What cannot be read comes back as it is.
func suggested(form string, content json.RawMessage) json.RawMessage {
	values := make(map[string]json.RawMessage)
	if len(content) > 0 {
		given, err := strictjson.MemberMap(content)
		if err != nil {
			return content
		}
		values = given
	}
	fields, err := strictjson.MemberMap(json.RawMessage(form))
	if err != nil || strictjson.Absent(fields["properties"]) {
		return content
	}
	properties, err := strictjson.MemberMap(fields["properties"])
	if err != nil {
		return content
	}
	added := false
	for name, raw := range properties {
		property, err := strictjson.MemberMap(raw)
		if _, there := values[name]; err != nil || there || strictjson.Absent(property["default"]) {
			continue
		}
		values[name], added = property["default"], true
	}
	if !added {
		return content
	}
	whole, err := json.Marshal(values)
	if err != nil {
		return content
	}
	return whole
}
