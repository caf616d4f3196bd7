//go:build !race

package schema

import "testing"

// A usual input is validated without an allocation. The race detector makes pools drop what they hold, so this runs without it.
func TestUsualInputAllocatesNothing(t *testing.T) {
	s, err := Compile(`{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"],"additionalProperties":false}`)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = s.Validate(`{"path":"a","limit":10}`) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
