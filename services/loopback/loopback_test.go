package loopback_test

import (
	"testing"

	"pawl.dev/services/loopback"
)

func TestIs(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:80": true, "127.0.0.1": true, "127.1.2.3:7410": true, "::1": true, "[::1]": true, "[::1]:7410": true, "::ffff:127.0.0.1": true,
		"": false, ":7410": false, "0.0.0.0": false, "192.0.2.1:80": false, "localhost.example.com": false, "127.0.0.1.example.com": false, "127.1": false,
	} {
		if got := loopback.Is(host); got != want {
			t.Errorf("Is(%q) = %v", host, got)
		}
	}
}
