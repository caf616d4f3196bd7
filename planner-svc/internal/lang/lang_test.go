package lang

import (
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// A27: the language drives what people read.
func TestOf(t *testing.T) {
	for _, tc := range []struct {
		declared commonv1.Language
		text     string
		want     Lang
	}{
		{commonv1.Language_LANGUAGE_UNSPECIFIED, "Which file?", EN},
		{commonv1.Language_LANGUAGE_UNSPECIFIED, "", EN},
		{commonv1.Language_LANGUAGE_UNSPECIFIED, "哪个文件提到了 pawl？有多少个 Go 文件？", ZH},
		{commonv1.Language_LANGUAGE_UNSPECIFIED, "Which files mention 棘爪 in docs?", EN},
		{commonv1.Language_LANGUAGE_EN, "哪个文件", EN},
		{commonv1.Language_LANGUAGE_ZH, "which", ZH},
	} {
		if got := Of(tc.declared, tc.text); got != tc.want {
			t.Errorf("%v %q: %s, want %s", tc.declared, tc.text, got, tc.want)
		}
	}
}

func TestTitle(t *testing.T) {
	for text, want := range map[string]string{
		"count  the\nfiles.": "Count the files",
		"":                   "",
		"哪个文件提到了 pawl？":      "哪个文件提到了 pawl",
		"find every file that mentions the word pawl and count": "Find every file that mentions the word…",
	} {
		if got := Title(text); got != want || len([]rune(got)) > 40 {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
