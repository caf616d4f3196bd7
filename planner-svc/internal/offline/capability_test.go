package offline

import "testing"

// A server whose id is an everyday word is not meant by every goal that has the word.
func TestNamedServers(t *testing.T) {
	for _, tc := range []struct {
		text, server string
		want         bool
	}{
		{"how many go files are there", "files", false},
		{"search the code", "code", false},
		{"list the files with everything", "everything", true},
		{"list the files in filesystem", "filesystem", true},
		{"anything", "", false},
	} {
		if got := names(tc.text, tc.server); got != tc.want {
			t.Errorf("names(%q, %q) = %v", tc.text, tc.server, got)
		}
	}
}
