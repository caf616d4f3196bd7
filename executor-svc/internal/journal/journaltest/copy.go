package journaltest

import (
	"bytes"
	"os"
	"testing"
)

// headSize is how much of a file tells whether it is used anew.
const headSize = 64

// Copy copies the files of a store that is in use as a process that is killed now would leave them: those that are read
// first are read until none of them was used anew meanwhile.
func Copy(t testing.TB, from, to []string) {
	t.Helper()
	contents := make([][]byte, len(from))
	for same := false; !same; {
		for i, name := range from {
			contents[i] = readFile(t, name)
		}
		same = true
		for i, name := range from[:len(from)-1] {
			same = same && bytes.Equal(head(contents[i]), head(readFile(t, name)))
		}
	}
	for i, name := range to {
		if err := os.WriteFile(name, contents[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func head(raw []byte) []byte { return raw[:min(len(raw), headSize)] }

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
