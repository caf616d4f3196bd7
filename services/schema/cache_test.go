package schema

import "testing"

func TestCompileUsesTheCache(t *testing.T) {
	const raw = `{"type":"object","title":"of TestCompileUsesTheCache"}`
	a, err := Compile(raw)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := Compile(raw); err != nil || a != b {
		t.Errorf("compiled twice: %v", err)
	}
}
