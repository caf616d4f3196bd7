package jsonrpc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestReadMessageFindsTheID(t *testing.T) {
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{"id":8}}`:        "7",
		`{"result":{"id":8,"x":[{"id":9}]},"id": 7 }`:       "7",
		`{"id":7,"result":` + strings.Repeat("[", 1000):     "7",
		`{"id":7,"result":"` + strings.Repeat("x", 1000):    "7",
		`{"id":"a,}b","result":1}`:                          `"a,}b"`,
		`{"result":{"id":8}`:                                "",
		`{"method":"m","params":{"id":8}}`:                  "",
		`{"id":{"id":8},"result":1}`:                        "",
		`{"a":1,"a":2,"id":7}`:                              "7",
		strings.Repeat(`{"a":`, 300) + `{"id":8}`:           "",
		`{"id":7,"id":8}`:                                   "7",
		`[{"id":7}]`:                                        "",
		`{"x":"\"id\":8","id":7}`:                           "7",
		`{"x":"` + strings.Repeat(`\\\"`, 50) + `","id":7}`: "7",
	} {
		if got := string(ReadMessage([]byte(text)).ID); got != want {
			t.Errorf("%.60s: id %q, want %q", text, got, want)
		}
	}
	if m := ReadMessage([]byte(`{"method":"m","params":{"result":1}}`)); !m.Method || m.Answer || m.Err != nil {
		t.Errorf("a notification: %+v", m)
	}
	for _, text := range []string{`{"id":7,"result":1,"Result":2}`, `{"ID":7,"result":1}`, `{"id":7,"re\u017Fult":1}`} {
		if m := ReadMessage([]byte(text)); !errors.Is(m.Err, errCase) {
			t.Errorf("%s: %v", text, m.Err)
		}
	}
	if m := ReadMessage([]byte(`{"result":1}`)); m.Method || !m.Answer {
		t.Errorf("an answer: %+v", m)
	}
}

// The values of result and error are those that encoding/json finds.
func TestReadMessageFindsTheValues(t *testing.T) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":[1,{"result":2}],"error":3}}`, `{"result" : "a\"}" , "id":1}`, `{"error":{"code":1,"message":"]}"},"id":1}`,
		`{"id":1,"result":null,"error":  [ 1 ] }`, `{"id":1,"result":-1.5e3}`, `{"id":1,"method":"m","params":{"result":1}}`, `[{"result":1}]`,
		`{"re\u0073ult":true}`, `{"result":{},"id":{"result":1}}`, `{}`,
	} {
		m := ReadMessage([]byte(text))
		var want struct{ Result, Error json.RawMessage }
		if text[0] == '{' {
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatal(err)
			}
		}
		if string(m.Result) != string(want.Result) || string(m.Error) != string(want.Error) || m.Err != nil {
			t.Errorf("%s: %s, %s, %v", text, m.Result, m.Error, m.Err)
		}
	}
}
