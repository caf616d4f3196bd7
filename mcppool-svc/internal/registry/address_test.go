package registry

import "testing"

func TestMaskURL(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"https://h.example/mcp", "https://h.example/mcp"},
		{"https://h.example/mcp?", "https://h.example/mcp?"},
		{"http://user:pw@h.example:81/a%2Fb?x=1", "http://***@h.example:81/a%2Fb?x=1"},
		{"http://user@h.example", "http://***@h.example"},
		{"http://a@b:c@h.example", "http://***@h.example"},
		{"http://h.example/@me?q=a@b", "http://h.example/@me?q=a@b"},
		{"http://h.example?api_key=s3&q=%20x&&flag", "http://h.example?api_key=***&q=%20x&&flag"},
		{"http://h.example?access%5Ftoken=a&Sig=b=c&clientSecret=d", "http://h.example?access%5Ftoken=***&Sig=***&clientSecret=***"},
		{"http://h.example?token=&key", "http://h.example?token=&key"},
		{"http://h.example?%zz=a", "http://h.example?%zz=***"},
		{"http://h.example?u=http://a:b@c", "http://h.example?u=http://a:b@c"},
	} {
		got := MaskURL(tt.url)
		if got != tt.want {
			t.Errorf("MaskURL(%s) = %s, want %s", tt.url, got, tt.want)
		}
		if back, err := UnmaskURL(got, tt.url); err != nil || back != tt.url {
			t.Errorf("UnmaskURL(%s) = %s, %v", got, back, err)
		}
	}
}

func TestUnmaskURL(t *testing.T) {
	const old = "https://user:pw@h.example/mcp?key=one&key=two&q=1"
	for _, tt := range []struct{ url, want string }{
		{"https://***@h.example/v2?q=2&key=***&key=***", "https://user:pw@h.example/v2?q=2&key=one&key=two"},
		{"https://h.example/mcp?key=new&key=***", "https://h.example/mcp?key=new&key=two"},
		{"https://h.example/mcp?q=***", "https://h.example/mcp?q=***"}, // nothing that is hidden
		{"https://h.example/mcp?token=***", ""},
		{"https://h.example/mcp?key=***&key=***&key=***", ""},
		{"https://evil.example/mcp?key=***", ""},
		{"http://h.example/mcp?key=***", ""},
		{"https://***@evil.example/mcp", "https://***@evil.example/mcp"},
	} {
		got, err := UnmaskURL(tt.url, old)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("UnmaskURL(%s) = %s, %v; want %s", tt.url, got, err, tt.want)
		}
	}
}

// Whatever an address is, what is shown of it can be sent back.
func FuzzMaskURL(f *testing.F) {
	f.Add("https://a:b@h.example/p?key=1&x#f")
	f.Fuzz(func(t *testing.T, address string) {
		if back, err := UnmaskURL(MaskURL(address), address); err != nil || back != address {
			t.Errorf("%q comes back as %q, %v", address, back, err)
		}
	})
}
