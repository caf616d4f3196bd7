package mcp

import (
	"encoding/base64"
	"testing"
)

// A server that echoes a part of its secret shows none of it.
func TestRedactor(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("ann:open sesame"))
	hide := newRedactor(map[string]string{
		"Authorization": "Bearer sk-123456", "Proxy": "basic " + basic, "A": "abcdef", "B": "abcdefgh", "Short": "abc", "Prefix": "Token  spaced-out",
	}).Replace
	for text, want := range map[string]string{
		"invalid token sk-123456": "invalid token ***", `"Bearer sk-123456"`: `"***"`, "Bearer of bad news": "Bearer of bad news",
		"wrong password open sesame for ann": "wrong password *** for ann", "ann:open sesame": "***", basic: "***",
		"abcdefghi": "***i", "abcdef": "***", "abc": "abc",
	} {
		if got := hide(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
