package api

import "testing"

// A9: a supplied output must have the shape of a step's output.
func TestStepOutput(t *testing.T) {
	for text, fits := range map[string]bool{
		`{"message":"done"}`: true, `{"structured":[1]}`: true, `{"message":"done","structured":null,"media":[{"type":"image"}]}`: true,
		`{}`: false, `{"media":[]}`: false, `{"message":1}`: false, `{"message":"x","media":{}}`: false, `{"message":"x","text":"y"}`: false,
		`["message"]`: false, `{"message":"x"`: false,
	} {
		got, err := stepOutput(nil, text)
		if fits && (err != nil || got != text) || !fits && err == nil {
			t.Errorf("%s: %q, %v", text, got, err)
		} else if err != nil {
			t.Log(err)
		}
	}
}
