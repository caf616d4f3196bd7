package input

import (
	"strings"
	"testing"
)

func TestFill(t *testing.T) {
	for _, tc := range []struct{ name, schema, goal, want string }{
		{"get-sum", sum, "add 2 and 3", `{"a":2,"b":3}`},
		{"get-sum", sum, "add 9007199254740993 and -1.50", `{"a":9007199254740993,"b":-1.50}`},
		{"get-sum", sum, "sum of b=3 and a=2", `{"a":2,"b":3}`},
		{"get-sum", sum, `sum {"b": 1e2, "a": "7"}`, `{"a":7,"b":1e2}`},
		{"get-sum", sum, "add 2", `{}`},
		{"wait", wait, "wait 1,500 seconds in 3 steps", `{"duration":1500,"steps":3}`},
		{"wait", wait, "wait 5 seconds, verbose", `{"duration":5,"verbose":true}`},
		{"wait", wait, "wait with steps 4", `{"steps":4}`},
		{"weather", weather, "weather in new york in c", `{"location":"New York","unit":"c"}`},
		{"copy", copyTo, "copy a.txt to b/c.txt", `{"source":"a.txt","destination":"b/c.txt"}`},
		{"write", write, `write "hello there" to notes.txt`, `{"path":"notes.txt","content":"hello there"}`},
		{"read_many", many, "read a.md and b.md", `{"paths":["a.md","b.md"]}`},
		{"values", values, "average of 1, 2 and 3.5", `{"values":[1,2,3.5]}`},
		{"echo", echo, "echo hello world", `{"message":"hello world"}`},
		{"echo", echo, "echo the message: hi", `{"message":"hi"}`},
		{"echo", echo, `please echo "a, b"`, `{"message":"a, b"}`},
		{"fetch", fetch, "fetch https://x.y/z?q=1.", `{"url":"https://x.y/z?q=1"}`},
		{"fetch", fetch, "fetch https://x.y raw", `{"url":"https://x.y","raw":true}`},
		{"search", search, "search nothing=1 query=x", `{"query":"x"}`},
	} {
		got := ParamsOf(newTool(tc.name, tc.schema)).Fill(Scan(tc.goal)).Input
		if got.String() != tc.want {
			t.Errorf("%s %q: %s, want %s", tc.name, tc.goal, got, tc.want)
		}
	}
}

func TestCoerce(t *testing.T) {
	for _, tc := range []struct {
		schema, raw, want string
		ok                bool
	}{
		{`{"type":"integer"}`, `"3"`, `3`, true},
		{`{"type":"integer"}`, `"3.5"`, `"3.5"`, false},
		{`{"type":"integer"}`, `3.5`, `3.5`, false},
		{`{"type":"integer"}`, `1e9`, `1e9`, false},
		{`{"type":"integer"}`, `"12,000"`, `12000`, true},
		{`{"type":"number"}`, `"3.50"`, `3.50`, true},
		{`{"type":"number"}`, `7`, `7`, true},
		{`{"type":"number"}`, `"NaN"`, `"NaN"`, false},
		{`{"type":"string"}`, `12345678901234567890`, `"12345678901234567890"`, true},
		{`{"type":"string"}`, `true`, `"true"`, true},
		{`{"type":"boolean"}`, `"yes"`, `true`, true},
		{`{"type":"boolean"}`, `"否"`, `false`, true},
		{`{"type":"boolean"}`, `"maybe"`, `"maybe"`, false},
		{`{"type":"array","items":{"type":"string"}}`, `"a, b"`, `"a, b"`, false},
		{`{"type":"array","items":{"type":"integer"}}`, `"1, 2"`, `"1, 2"`, false},
		{`{"type":"array"}`, `"[1, 2]"`, `[1,2]`, true},
		{`{"type":"array"}`, `5`, `[5]`, true},
		{`{"type":"object"}`, `"{\"a\": 1}"`, `{"a":1}`, true},
		{`{"enum":["Red","blue"]}`, `"red"`, `"Red"`, true},
		{`{"enum":[1,2]}`, `"2"`, `2`, true},
		{`{"type":["string","null"]}`, `null`, `null`, true},
		{`{}`, `"3"`, `"3"`, true},
	} {
		p := newTool("x", `{"type":"object","properties":{"p":`+tc.schema+`}}`).Props[0]
		if got, ok := Coerce(&p, tc.raw); got != tc.want || ok != tc.ok {
			t.Errorf("%s as %s: %s %v, want %s %v", tc.raw, tc.schema, got, ok, tc.want, tc.ok)
		}
	}
}

// Units, magnitudes, dates, roles and enums, by what the properties say.
func TestValues(t *testing.T) {
	for _, tc := range []struct{ schema, goal, want string }{
		{`{"properties":{"weight_kg":{"type":"number"}}}`, "a weight of 150 lb", `{"weight_kg":68.0388555}`},
		{`{"properties":{"duration":{"type":"integer","description":"in seconds"}}}`, "a duration of 1.5 minutes", `{"duration":90}`},
		{`{"properties":{"rate":{"type":"number","description":"as a fraction"}},"required":["rate"]}`, "a rate of 7.5%", `{"rate":0.075}`},
		{`{"properties":{"rate":{"type":"number","description":"in percent"}},"required":["rate"]}`, "a rate of 7.5 percent", `{"rate":7.5}`},
		{`{"properties":{"rate":{"type":"number"}},"required":["rate"]}`, "a rate of 7.5%", `{}`},
		{`{"properties":{"people":{"type":"integer"}},"required":["people"]}`, "8.5 million people", `{"people":8500000}`},
		{`{"properties":{"depth_m":{"type":"number"}},"required":["depth_m"]}`, "a depth of 3 kg", `{}`},
		{`{"properties":{"day":{"type":"string","format":"date"}},"required":["day"]}`, "on March 5th, 2027", `{"day":"2027-03-05"}`},
		{`{"properties":{"day":{"type":"string","format":"date"}},"required":["day"]}`, "on March 5th", `{}`},
		{`{"properties":{"time":{"type":"string"}},"required":["time"]}`, "at 7 pm", `{"time":"19:00"}`},
		{`{"properties":{"start":{"type":"string"},"end":{"type":"string"}},"required":["start","end"]}`, "go to Rome from Genoa", `{"start":"Genoa","end":"Rome"}`},
		{`{"properties":{"mode":{"enum":["walking","driving"]}}}`, "go there by walking", `{"mode":"walking"}`},
		{`{"properties":{"names":{"type":"array","items":{"type":"string"}}},"required":["names"]}`, "the names \"a\", \"b\" and \"c\"", `{"names":["a","b","c"]}`},
		{`{"properties":{"days":{"type":"array","items":{"enum":["monday","friday","sunday"]}}}}`, "on monday and friday", `{"days":["monday","friday"]}`},
		{`{"properties":{"path":{"type":"string"}},"required":["path"]}`, "read naïve.txt", `{"path":"naïve.txt"}`},
		{`{"properties":{"path":{"type":"string"}},"required":["path"]}`, "读取notes/会议.md的内容", `{"path":"notes/会议.md"}`},
	} {
		if got := ParamsOf(newTool("do", tc.schema)).Fill(Scan(tc.goal)).Input; got.String() != tc.want {
			t.Errorf("%q: %s, want %s", tc.goal, got, tc.want)
		}
	}
}

// longUnits are texts that, repeated, have been slow to scan.
var longUnits = []string{"a 1 ", "\"", "{", "{\n", "[", "一", "中1", "3k", "a=", "a-", "x.y ", "/", "1-", "2020-", "1,", "a@", "http://", "A, B and C "}

// BenchmarkLongGoals scans and fills the longest goals; their time should be about the same whatever they repeat.
func BenchmarkLongGoals(b *testing.B) {
	tool := ParamsOf(newTool("do", search))
	for _, unit := range longUnits {
		goal := strings.Repeat(unit, MostText/len(unit))
		b.Run(unit, func(b *testing.B) {
			for b.Loop() {
				tool.Fill(Scan(goal))
			}
		})
	}
}

// Tokens lie within a goal, in order, and values within the tokens; a complete input fits the schema.
func FuzzFill(f *testing.F) {
	for _, s := range []string{"read notes/会议.md 前 10 行", "$5 million, 3kg and 7%", "\"a\" 'b' “c” {\"a\": 1} [1,2]", "\"'\"00", "a=b c= =d", "On 5 May 2020 at 7:30 pm from A to B", "\xff\xfe 3\xff", "first 3 lines, lines 5-9"} {
		f.Add(s)
	}
	for _, unit := range longUnits {
		f.Add(strings.Repeat(unit, MostText/len(unit)))
	}
	tool := newTool("do", `{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer"},"weight_kg":{"type":"number"},"day":{"type":"string","format":"date"},"tags":{"type":"array","items":{"type":"string"}},`+
		`"mode":{"type":"string","enum":["on","off"]},"deep":{"type":"boolean"},"query":{"type":"string"},"start_line":{"type":"integer"},"end_line":{"type":"integer"}},"required":["path","n"]}`)
	f.Fuzz(func(t *testing.T, s string) {
		c := Scan(s)
		s = c.Text
		end := 0
		for _, tok := range c.Tokens {
			if tok.Start < end || tok.Start >= tok.End || tok.End > len(s) {
				t.Fatalf("%+v lies outside of %q or is out of order", tok, s)
			}
			end = tok.End
		}
		for _, v := range c.Values {
			if v.From < 0 || v.From >= v.To || v.To > len(c.Tokens) {
				t.Fatalf("%+v lies outside of %q", v, s)
			}
		}
		if got := ParamsOf(tool).Fill(c); len(got.Missing) == 0 {
			if err := tool.Schema.Validate(got.Input.String()); err != nil {
				t.Fatalf("%q: %s: %v", s, got.Input, err)
			}
		}
	})
}
