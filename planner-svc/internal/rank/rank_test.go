package rank

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

func tool(name, description, schema string) *commonv1.Tool {
	return &commonv1.Tool{Id: "s/" + name, Name: name, Description: description, InputSchemaJson: schema}
}

var tools = []*commonv1.Tool{
	tool("send_email", "Sends an email to one or more people.", `{"type":"object","properties":{"recipient":{"type":"string"},"subject":{"type":"string"}}}`),
	tool("get_weather", "Current conditions at a place.", `{"type":"object","properties":{"city":{"type":"string","description":"The name of the city"}}}`),
	tool("convertCurrency", "Converts an amount of money.", `{"type":"object","properties":{"amount":{"type":"number"},"to":{"type":"string","description":"ISO code such as EUR"}}}`),
	tool("delete_file", "Deletes a file for ever.", `{"type":"object","properties":{"path":{"type":"string"}}}`),
	tool("查询航班", "查询两个城市之间的航班", `{"type":"object","properties":{"出发地":{"type":"string"}}}`),
}

func TestSearch(t *testing.T) {
	x := []*Index{New(tools)}
	for query, want := range map[string]string{
		"What's the weather in Paris?":         "get_weather",
		"mail the report to Ann":               "send_email",
		"How many euros are 5 dollars? (EUR)":  "convertCurrency",
		"conversion of money":                  "convertCurrency",
		"remove notes.txt":                     "delete_file",
		"巴黎的天气怎么样？":                            "get_weather",
		"删除文件 notes.txt":                       "delete_file",
		"北京到上海的航班":                             "查询航班",
		"which flights are there from Beijing": "查询航班",
	} {
		hits := Search(x, query)
		if len(hits) == 0 || hits[0].Tool.GetName() != want {
			t.Errorf("%q: %v, want %s", query, hits, want)
		}
	}
	if hits := Search(x, "the of and"); len(hits) > 0 {
		t.Errorf("stop words alone match: %v", hits)
	}
}

// Several indexes rank as one of all their tools does, and derive something of a tool once.
func TestIndexesRankTogether(t *testing.T) {
	one, several := []*Index{New(tools)}, []*Index{New(tools[:2]), New(nil), New(tools[2:])}
	for _, query := range []string{"mail the weather of the city to Ann", "convert 5 dollars and delete the file", "城市", "nothing of the kind"} {
		want, got := Search(one, query), Search(several, query)
		same := func(a, b Hit) bool {
			return a.Tool == b.Tool && a.Position == b.Position && math.Abs(a.Score-b.Score) < 1e-9
		}
		if !slices.EqualFunc(want, got, same) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
	for i := range 2 {
		derived := Search(several, "email")[0].Derive(func(tool *commonv1.Tool) any { return fmt.Sprint(tool.GetName(), i) })
		if derived != "send_email0" {
			t.Errorf("search %d derived %v", i, derived)
		}
	}
}

func TestTerms(t *testing.T) {
	for text, want := range map[string][]string{
		"getUserNames2": {"get", "user", "names2"},
		"list_files":    {"list", "file"},
		"URLs":          {"url"},
		"naïve café":    {"naïv", "café"},
		"读取文件":          {"读取", "文件", "读取", "取文", "文件"},
		"":              nil,
	} {
		if got := Terms(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestFast holds a decision among 500 tools to 5 ms, of which ranking may take most.
func TestFast(t *testing.T) {
	var many []*commonv1.Tool
	for i := range 500 {
		d := tools[i%len(tools)]
		many = append(many, tool(fmt.Sprintf("%s_%d", d.GetName(), i), d.GetDescription(), d.GetInputSchemaJson()))
	}
	x := []*Index{New(many)}
	const most = 5 * time.Millisecond
	// What else the machine does comes and goes; what a search takes is there each time.
	fastest := time.Hour
	for tries := 0; tries < 200 && fastest > most; tries++ {
		start := time.Now()
		Search(x, "send an email about the weather to the people in Paris")
		fastest = min(fastest, time.Since(start))
	}
	if fastest > most {
		t.Errorf("it took %v, want at most %v", fastest, most)
	}
}

func FuzzTerms(f *testing.F) {
	for _, s := range []string{"getUserName", "读取 README.md 文件", "naïve", "\xff", "URLs"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, term := range Terms(s) {
			if term == "" {
				t.Errorf("%q has an empty term", s)
			}
		}
	})
}
