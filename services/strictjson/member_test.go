package strictjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/services/strictjson"
)

func TestMemberMap(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(`"k%d":1`, i))
	}
	for text, want := range map[string]string{
		`[]`: "not a JSON object", `"a"`: "not a JSON object", `{"a":1,"A":2}`: "comes twice", `{"a":1,"\u0061":2}`: "comes twice",
		`{` + strings.Join(many, ",") + `,"K3":1}`: "comes twice", `{` + strings.Join(many, ",") + `,"K3":1}`: "comes twice", ``: "not a JSON object",
	} {
		if _, err := strictjson.MemberMap([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

// Valid, unambiguous text is split as by encoding/json.
func FuzzMemberMap(f *testing.F) {
	for _, text := range []string{`{}`, ` { "a" : [ {"b":"}\""} , 1 ] , "c":null,"d":-1.5e3 } `, `{"a":{"a":1},"b":"x\\"}`, `{"a":true,"A":1}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := strictjson.MemberMap([]byte(text))
		if err != nil || !json.Valid([]byte(text)) {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%q was split, but is not an object: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	})
}
