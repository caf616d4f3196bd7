package oauth

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChallenge(t *testing.T) {
	type want struct {
		Metadata, Err string
		Scopes        []string
		Kind          scheme
	}
	for name, tt := range map[string]struct {
		headers []string
		want    want
	}{
		"none":       {nil, want{}},
		"bare":       {[]string{"Bearer"}, want{Kind: bearer}},
		"lower case": {[]string{`bearer SCOPE="a b"`}, want{Scopes: []string{"a", "b"}, Kind: bearer}},
		"all": {
			[]string{`Bearer error="insufficient_scope", scope="files:read files:write", resource_metadata="https://a.example/.well-known/x?a=b,c", error_description="no \"x\", sorry"`},
			want{"https://a.example/.well-known/x?a=b,c", "insufficient_scope", []string{"files:read", "files:write"}, bearer},
		},
		"tokens":             {[]string{`Bearer error=invalid_token,scope=a`}, want{Err: "invalid_token", Scopes: []string{"a"}, Kind: bearer}},
		"spaces":             {[]string{`Bearer  scope = "a" , error = x`}, want{Err: "x", Scopes: []string{"a"}, Kind: bearer}},
		"behind another":     {[]string{`Basic realm="a, Bearer scope=x", Bearer scope="y"`}, want{Scopes: []string{"y"}, Kind: bearer}},
		"behind token68":     {[]string{`Negotiate abc/d==, Bearer scope="y"`}, want{Scopes: []string{"y"}, Kind: bearer}},
		"in a second header": {[]string{`Basic realm="a"`, `Bearer scope="y"`}, want{Scopes: []string{"y"}, Kind: bearer}},
		"the first counts":   {[]string{`Bearer scope="a", scope="b"`, `Bearer scope="c"`}, want{Scopes: []string{"a"}, Kind: bearer}},
		"another":            {[]string{`Basic realm="a"`}, want{Kind: otherScheme}},
		"DPoP":               {[]string{`DPoP algs="ES256"`}, want{Kind: otherScheme}},
		"not closed":         {[]string{`Bearer scope="a`}, want{Kind: bearer}},
		"a parameter alone":  {[]string{`scope="a"`}, want{}},
		"no scopes":          {[]string{"Bearer scope=\"a\x01b  c\\\\d " + strings.Repeat("x", maxScope+1) + ` ok"`}, want{Scopes: []string{"ok"}, Kind: bearer}},
		"too long":           {[]string{"Basic " + strings.Repeat("x", maxHeader), "Bearer"}, want{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, kind := challengeOf(http.Header{"Www-Authenticate": tt.headers})
			if diff := cmp.Diff(tt.want, want{got.metadata, got.err, got.scopes, kind}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzChallenge(f *testing.F) {
	for _, seed := range []string{`Bearer a="b\"c", d=e`, `Negotiate x==, Bearer`, `Basic realm=`, `a=b`, `Bearer "`, "Bearer scope=\"\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range parseChallenges(text) {
			if c.scheme == "" {
				t.Errorf("a challenge without scheme in %q", text)
			}
			for name := range c.params {
				if name == "" || name != strings.ToLower(name) {
					t.Errorf("parameter %q in %q", name, text)
				}
			}
		}
		got, _ := challengeOf(http.Header{"Www-Authenticate": {text}})
		for _, scope := range got.scopes {
			if !isScope(scope) {
				t.Errorf("scope %q of %q", scope, text)
			}
		}
		if len(got.scopes) > maxScopes {
			t.Errorf("%d scopes", len(got.scopes))
		}
	})
}
