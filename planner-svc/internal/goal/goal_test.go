package goal

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeTools knows a few tools by name.
type fakeTools struct{}

func (fakeTools) Distinct(s string) bool {
	return slices.Contains([]string{"everything/echo", "get-sum", "everything/get-sum", "workspace/search_code", "search_code", "read_file"}, s)
}

func (fakeTools) Verb(s string) bool { return slices.Contains([]string{"echo", "add", "get"}, s) }

// show writes what was understood of a clause in one line.
func show(c Clause) string {
	var b strings.Builder
	b.WriteString(c.Intent.String())
	for _, t := range c.Terms {
		fmt.Fprintf(&b, " %q", t.Text)
		if t.Word {
			b.WriteString("w")
		}
		if t.Regex {
			b.WriteString("r")
		}
	}
	for _, k := range c.Kinds {
		fmt.Fprintf(&b, " kind:%s", k.Pattern)
	}
	for _, p := range c.Places {
		if p.File {
			fmt.Fprintf(&b, " file:%s", p.Path)
		} else {
			fmt.Fprintf(&b, " dir:%s", p.Path)
		}
	}
	if c.Lines != (Lines{}) {
		fmt.Fprintf(&b, " lines:%d-%d/%d", c.Lines.From, c.Lines.To, c.Lines.Last)
	}
	if c.Doc != "" {
		b.WriteString(" doc:" + c.Doc)
	}
	if c.Tool != "" {
		b.WriteString(" tool:" + c.Tool)
	}
	for name, set := range map[string]bool{" back": c.Back} {
		if set {
			b.WriteString(name)
		}
	}
	if c.Deep {
		b.WriteString(" deep")
	}
	return b.String()
}

func TestParse(t *testing.T) {
	for goal, want := range map[string][]string{
		// searching for text
		"Which file mentions the word pawl?":                                    {`SearchText "pawl"w`},
		"Which file mentions pawl?":                                             {`SearchText "pawl"`},
		"which files mention \"ratchet\" and how many Go files are there":       {`SearchText "ratchet"`, `CountFiles kind:**/*.go`},
		"Which Go files in docs mention pawl or ratchet?":                       {`SearchText "pawl" "ratchet" kind:**/*.go dir:docs`},
		"Which files mention \"foo bar\", \"baz\" or 'qux'?":                    {`SearchText "foo bar" "baz" "qux"`},
		"find files that contain both pawl and ratchet":                         {`SearchText "pawl" "ratchet"`},
		"find all files containing the text \"hello world\" under cmd/pawl":     {`SearchText "hello world" dir:cmd/pawl deep`},
		"Where is Resolve used?":                                                {`SearchText "Resolve"`},
		"who uses errs.New?":                                                    {`SearchText "errs.New"`},
		"In which files does ErrNotFound appear?":                               {`SearchText "ErrNotFound"`},
		"grep for TODO in internal":                                             {`SearchText "TODO" dir:internal`},
		"Find all TODO comments":                                                {`SearchText "TODO"`},
		"How many TODOs are there in the code?":                                 {`SearchText "TODO"`},
		"search for \"func main\" in Go files":                                  {`SearchText "func main" kind:**/*.go`},
		"Search docs for pawl":                                                  {`SearchText "pawl" dir:docs`},
		"find ratchet":                                                          {`SearchText "ratchet"`},
		"how many times is pawl mentioned in README.md":                         {`SearchText "pawl" file:README.md`},
		"Which packages import \"fmt\"?":                                        {`SearchText "fmt"`},
		"Which markdown file describes the ratchet?":                            {`SearchText "ratchet" kind:**/*.{md,markdown}`},
		"find lines matching the regex `a+b`":                                   {`SearchText "a+b"r`},
		"how many markdown files are there and which of them mention \"x y\"":   {`CountFiles kind:**/*.{md,markdown}`, `SearchText "x y" kind:**/*.{md,markdown}`},
		"Find out which file mentions pawl. Then count all Go files.":           {`SearchText "pawl"`, `CountFiles kind:**/*.go`},
		"Could you please tell me which file mentions the word pawl":            {`SearchText "pawl"w`},
		"In which file is the word pawl mentioned and how many .go files exist": {`SearchText "pawl"w`, `CountFiles kind:**/*.go`},
		"Find out where the word ratchet is mentioned":                          {`SearchText "ratchet"w`},
		"find \"*.go\"":          {`FindFiles kind:**/*.go`},
		"find . -name \"*.go\"":  {`FindFiles kind:**/*.go dir:.`},
		"ls -la src":             {`ListFolder dir:src`},
		"cat a.md | head -3":     {`ReadFile file:a.md lines:1-3/0`},
		"What's in this folder?": {`ListFolder`},
		"哪个文件里有 ratchet 这个单词":    {`SearchText "ratchet"`},
		// definitions
		"Where is the Wheel type?":                {`FindDefinition "Wheel"`},
		"where is the function NewServer defined": {`FindDefinition "NewServer"`},
		"find definition of type Server":          {`FindDefinition "Server"`},
		"which file declares pkg.Thing?":          {`FindDefinition "Thing"`},
		// counting and finding files
		"How many Go files are there?":                          {`CountFiles kind:**/*.go`},
		"count the markdown files under docs":                   {`CountFiles kind:**/*.{md,markdown} dir:docs`},
		"How many Go, proto and YAML files are in proto?":       {`CountFiles kind:**/*.go kind:**/*.proto kind:**/*.{yaml,yml} dir:proto`},
		"How many .proto files are there":                       {`CountFiles kind:**/*.proto`},
		"How many files have the extension .go":                 {`CountFiles kind:**/*.go`},
		"How many test files are there? And Markdown files?":    {`CountFiles kind:**/{*_test,*.test,*.spec,test_*}.*`, `CountFiles kind:**/*.{md,markdown}`},
		"how many Go test files":                                {`CountFiles kind:**/*_test.go`},
		"how many files are there in total?":                    {`CountFiles`},
		"how many go files are there and what are their names?": {`FindFiles kind:**/*.go`},
		"Find the Go files and count them":                      {`FindFiles kind:**/*.go`},
		"find files named *.proto":                              {`FindFiles kind:**/*.proto`},
		"Show files matching *_test.go":                         {`FindFiles kind:**/*_test.go`},
		"list files ending in .md":                              {`FindFiles kind:**/*.md`},
		"list *.{yaml,yml} files in deploy/":                    {`FindFiles kind:**/*.{yaml,yml} dir:deploy`},
		"list go files in services/errs":                        {`FindFiles kind:**/*.go dir:services/errs`},
		"find the file server.go":                               {`FindFiles kind:**/server.go`},
		"where is go.mod":                                       {`FindFiles kind:**/go.mod`},
		"is there a Dockerfile?":                                {`FindFiles kind:Dockerfile`},
		"does go.mod exist":                                     {`FindFiles kind:**/go.mod`},
		"How many folders are there in docs?":                   {`CountFolders dir:docs`},
		"I have a Go project. How many Go files are there?":     {`Other`, `CountFiles kind:**/*.go`},
		"Read README.md; list docs; count proto files":          {`ReadFile file:README.md`, `ListFolder dir:docs`, `CountFiles kind:**/*.proto`},
		"Please list the folders, then read LICENSE":            {`ListFolder`, `ReadFile file:LICENSE`},
		"find README.md and read it":                            {`FindFiles kind:**/README.md`, `ReadFile back`},
		"List the files in docs":                                {`ListFolder dir:docs`},
		"List the files in docs, src and cmd":                   {`ListFolder dir:docs dir:src dir:cmd`},
		"What's in the docs folder?":                            {`ListFolder dir:docs`},
		"What files are there?":                                 {`ListFolder`},
		"list all files recursively":                            {`ListFolder deep`},
		"Show me the contents of docs/guide.md":                 {`ReadFile file:docs/guide.md`},
		"Read README.md, go.mod and LICENSE":                    {`ReadFile file:README.md file:go.mod file:LICENSE`},
		"open \"my notes.txt\"":                                 {`ReadFile file:my notes.txt`},
		"show me the first 20 lines of go.mod":                  {`ReadFile file:go.mod lines:1-20/0`},
		"show the first ten lines of go.mod":                    {`ReadFile file:go.mod lines:1-10/0`},
		"show lines 10 to 20 of main.go":                        {`ReadFile file:main.go lines:10-20/0`},
		"print main.go lines 5-9":                               {`ReadFile file:main.go lines:5-9/0`},
		"what is the last line of a.txt":                        {`ReadFile file:a.txt lines:0-0/1`},
		"show the last 5 lines of CHANGELOG.md":                 {`ReadFile file:CHANGELOG.md lines:0-0/5`},
		"read the readme":                                       {`ReadFile doc:readme`},
		"What does go.mod say?":                                 {`ReadFile file:go.mod`},
		"summarize README.md":                                   {`ReadFile file:README.md`},
		"How big is LICENSE?":                                   {`DescribeFile file:LICENSE`},
		"How many lines does README.md have?":                   {`DescribeFile file:README.md`},
		"when was LICENSE last modified?":                       {`DescribeFile file:LICENSE`},
		"Is README.md a directory?":                             {`DescribeFile file:README.md`},
		"what does this project do":                             {`About`},
		"Summarize this repository.":                            {`About`},
		// what is none of these
		"echo hello world":                        {`Other`},
		"add 2 and 3":                             {`Other`},
		"delete the file x.txt":                   {`Other file:x.txt`},
		"compile the Go files":                    {`Other kind:**/*.go`},
		"What's the weather in Chicago?":          {`Other dir:Chicago`},
		"what time is it in Tokyo?":               {`Other dir:Tokyo`},
		"Which file contains the most Go code?":   {`Other`},
		"call everything/echo with message=hello": {`Other tool:everything/echo`},
		"use get-sum with a=2 and b=3":            {`Other tool:get-sum`},
		"use search_code to find ratchet in docs": {`SearchText "ratchet" dir:docs tool:search_code`},
		"call workspace/search_code with query=x": {`Other tool:workspace/search_code`},
		"echo hello and add 2 and 3":              {`Other`, `Other`},
		"hello":                                   nil,
		"":                                        nil,
		"  . ; , ":                                nil,
		// Chinese
		"哪个文件提到了 pawl？有多少个 Go 文件？":        {`SearchText "pawl"`, `CountFiles kind:**/*.go`},
		"告诉我哪个文件提到了“pawl”，以及一共有多少个 Go 文件": {`SearchText "pawl"`, `CountFiles kind:**/*.go`},
		"有哪些文件提到 pawl，Go 文件有多少个？":         {`SearchText "pawl"`, `CountFiles kind:**/*.go`},
		"查找提到 pawl 的文件并统计 Go 文件数量":        {`SearchText "pawl"`, `CountFiles kind:**/*.go`},
		"哪些文件包含\"ratchet\"，并且统计 Go 文件的数量": {`SearchText "ratchet"`, `CountFiles kind:**/*.go`},
		"pawl 在哪些文件中出现？":                  {`SearchText "pawl"`},
		"搜索 pawl 这个词":                     {`SearchText "pawl"`},
		"搜索代码中的 NewServer":                {`SearchText "NewServer"`},
		"在 internal 目录下搜索 TODO":           {`SearchText "TODO" dir:internal`},
		"NewServer 函数在哪里定义的？":             {`FindDefinition "NewServer"`},
		"统计 docs 目录下的 markdown 文件数量":      {`CountFiles kind:**/*.{md,markdown} dir:docs`},
		"统计 Go 文件和 proto 文件的数量":           {`CountFiles kind:**/*.go kind:**/*.proto`},
		"docs 里有多少个 md 文件":                {`CountFiles kind:**/*.{md,markdown} dir:docs`},
		"查找所有 *.proto 文件":                 {`FindFiles kind:**/*.proto`},
		"列出 docs 目录下的文件":                  {`ListFolder dir:docs`},
		"帮我看看 docs 里有什么":                  {`ListFolder dir:docs`},
		"docs 目录里有哪些文件？":                  {`ListFolder dir:docs`},
		"读取 README.md 的前 20 行":            {`ReadFile file:README.md lines:1-20/0`},
		"读取 README.md 的前二十行":              {`ReadFile file:README.md lines:1-20/0`},
		"显示 go.mod 第 3 到 9 行":             {`ReadFile file:go.mod lines:3-9/0`},
		"读 LICENSE 的最后 10 行":              {`ReadFile file:LICENSE lines:0-0/10`},
		"看一下 go.mod":                      {`ReadFile file:go.mod`},
		"找到 main.go 并读取它":                 {`FindFiles kind:**/main.go`, `ReadFile back`},
		"LICENSE 多大？":                     {`DescribeFile file:LICENSE`},
		"LICENSE 有多少行？":                   {`DescribeFile file:LICENSE`},
		"这个项目是做什么的？":                      {`About`},
	} {
		var got []string
		for _, c := range Parse(goal, fakeTools{}) {
			got = append(got, show(c))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q:\n%s", goal, d)
		}
	}
}

func TestMask(t *testing.T) {
	for text, want := range map[string][]Literal{
		`call a with {"x": [1, {"y": "}"}]} now`: {{Kind: JSON, Text: `{"x": [1, {"y": "}"}]}`, Raw: `{"x": [1, {"y": "}"}]}`}},
		`say "it's" and 'so' don't`:              {{Kind: Quoted, Text: "it's", Raw: `"it's"`}, {Kind: Quoted, Text: "so", Raw: "'so'"}},
		"see https://a.b/c?d=e. Then":            {{Kind: URL, Text: "https://a.b/c?d=e", Raw: "https://a.b/c?d=e"}},
		`a=1 b="x y" c={"k":1} d=[1,2]`: {
			{Kind: Pair, Key: "a", Text: "1", Raw: "a=1"}, {Kind: Pair, Key: "b", Text: "x y", Raw: `b="x y"`},
			{Kind: Pair, Key: "c", Text: `{"k":1}`, Raw: `c={"k":1}`, JSON: true}, {Kind: Pair, Key: "d", Text: "[1,2]", Raw: "d=[1,2]", JSON: true}},
		"x == 1":                              nil,
		"read docs/a.md, LICENSE and .env.":   {{Kind: Path, Text: "docs/a.md", Raw: "docs/a.md"}, {Kind: Path, Text: "LICENSE", Raw: "LICENSE"}, {Kind: Path, Text: ".env", Raw: ".env"}},
		"*.go and **/*.{md,txt} or a?.c":      {{Kind: Glob, Text: "*.go", Raw: "*.go"}, {Kind: Glob, Text: "**/*.{md,txt}", Raw: "**/*.{md,txt}"}, {Kind: Glob, Text: "a?.c", Raw: "a?.c"}},
		"**bold** and 3.14 and/or e.g. 1,000": nil,
		"use get-sum":                         {{Kind: Tool, Text: "get-sum", Raw: "get-sum"}},
		"“中文” 和 「引号」":                         {{Kind: Quoted, Text: "中文", Raw: "“中文”"}, {Kind: Quoted, Text: "引号", Raw: "「引号」"}},
		"an \uE000 impostor":                  nil,
		"{ not json":                          nil,
		"\"never closed":                      nil,
	} {
		_, got := mask(text, fakeTools{}.Distinct)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q:\n%s", text, d)
		}
	}
}

func TestLongGoalsStayFast(t *testing.T) {
	for _, piece := range []string{"{", "find and ", "和"} {
		Parse(strings.Repeat(piece, 100_000/len(piece)), fakeTools{})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"Which file mentions \"a b\"?", "统计 docs 下的 Go 文件", "call x/y {\"a\":1} b=c", "lines 1-2 of a.b", "\uE000\uF8FF"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first := fmt.Sprintf("%+v", Parse(s, fakeTools{}))
		if again := fmt.Sprintf("%+v", Parse(s, fakeTools{})); again != first {
			t.Errorf("not deterministic: %s\n%s", first, again)
		}
		Single(s)
	})
}
