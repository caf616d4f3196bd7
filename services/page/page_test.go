package page_test

import (
	"bytes"
	"encoding/base64"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/page"
)

func TestRoundTrip(t *testing.T) {
	for _, key := range [][]byte{{}, []byte("task-1"), {0, 255, 10}} {
		got, err := page.Decode("ListTasks alice", page.Encode("ListTasks alice", key))
		if err != nil || !bytes.Equal(got, key) {
			t.Errorf("Decode(Encode(%q)) = %q, %v", key, got, err)
		}
	}
}

func TestFirstPage(t *testing.T) {
	if key, err := page.Decode("any", ""); key != nil || err != nil {
		t.Errorf("Decode of no token = %q, %v", key, err)
	}
}

func TestForeignTokensAreRefused(t *testing.T) {
	const scope = "ListTasks alice status=RUNNING"
	good := page.Encode(scope, []byte("k"))
	tokens := map[string]string{
		"garbage":           "not base64!",
		"too short":         base64.RawURLEncoding.EncodeToString([]byte{1, 2}),
		"another scope":     page.Encode("ListTasks bob", []byte("k")),
		"another version":   "Ag" + good[2:],
		"padded":            good + "=",
		"with a line break": good + "\n",
	}
	for name, token := range tokens {
		_, err := page.Decode(scope, token)
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
			t.Errorf("%s: Decode = %v, want INVALID_REQUEST", name, err)
			continue
		}
		if want := "page_token is not one of this list; start again without it"; errs.From(err).Message != want {
			t.Errorf("%s: message = %q, want %q", name, errs.From(err).Message, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("s", page.Encode("s", []byte("key")))
	f.Add("s", "AAAA")
	f.Fuzz(func(t *testing.T, scope, token string) {
		key, err := page.Decode(scope, token)
		if err == nil && token != "" && page.Encode(scope, key) != token {
			t.Errorf("%q is a second token for key %q", token, key)
		}
	})
}
