package goal

import "testing"

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, file string
		want          bool
	}{
		{"**/*.go", "a/b.go", true}, {"**/*.go", "b.go", true}, {"**/*.go", "b.gox", false}, {"**/*.{yaml,yml}", "x/a.yml", true},
		{"**/{*_test,test_*}.{go,py}", "x/test_a.py", true}, {"**/{*_test,test_*}.{go,py}", "x/a.py", false}, {"*.{go", "a.{go", true}, {"[", "[", false},
	} {
		if got := Matches(tc.pattern, tc.file); got != tc.want {
			t.Errorf("%s %s: %v", tc.pattern, tc.file, got)
		}
	}
}
