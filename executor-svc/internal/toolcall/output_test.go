package toolcall

import (
	"testing"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// A12: a step's output is the joined text, the structured content and the media.
func TestOutput(t *testing.T) {
	said := func(texts ...string) (all []*mcppoolv1.Content) {
		for _, text := range texts {
			all = append(all, &mcppoolv1.Content{Kind: &mcppoolv1.Content_Text{Text: text}})
		}
		return all
	}
	image := &mcppoolv1.Content{Kind: &mcppoolv1.Content_Image{Image: &mcppoolv1.Blob{MimeType: "image/png", Data: []byte{1, 2}}}}
	for want, res := range map[string]*mcppoolv1.CallResult{
		`{"message":""}`:                                    {},
		`{"message":"plain"}`:                               {Content: said("plain")},
		`{"message":"<a> & b"}`:                             {Content: said("<a> & b")},
		`{"message":"two\nlines"}`:                          {Content: said("two", "lines")},
		`{"message":"a \"quote\" \\ \u0001 字"}`:             {Content: said("a \"quote\" \\ \x01 字")},
		"{\"message\":\"\ufffd\"}":                          {Content: said("\xff")},
		`{"message":"x","structured":{"n":1.50,"h":"<&>"}}`: {Content: said("x"), StructuredJson: ` { "n" : 1.50, "h" : "<&>" } `},
		`{"message":"x","structured":null}`:                 {Content: said("x"), StructuredJson: `null`},
		`{"message":"y"}`:                                   {Content: said("y"), StructuredJson: `{"n":`},
		`{"message":"","media":[{"type":"image","mimeType":"image/png","data":"AQI="}]}`: {Content: []*mcppoolv1.Content{image}},
		`{"message":"z","structured":[],"media":[{"type":"image","mimeType":"image/png","data":"AQI="}]}`: {
			Content: append(said("z"), image), StructuredJson: `[]`},
	} {
		if got := Output(res); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
