package call

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

func textBlock(s string) *mcppoolv1.Content {
	return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Text{Text: s}}
}

func imageBlock(n int) *mcppoolv1.Content {
	return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Image{Image: &mcppoolv1.Blob{Data: make([]byte, n), MimeType: "image/png"}}}
}

func TestShorten(t *testing.T) {
	resource := &mcppoolv1.Content{Kind: &mcppoolv1.Content_Resource{Resource: &mcppoolv1.Resource{Uri: "file:///a", Text: strings.Repeat("é", 100)}}}
	blob := &mcppoolv1.Content{Kind: &mcppoolv1.Content_Resource{Resource: &mcppoolv1.Resource{Uri: "file:///b", Blob: make([]byte, 200)}}}
	link := &mcppoolv1.Content{Kind: &mcppoolv1.Content_ResourceLink{ResourceLink: &mcppoolv1.ResourceLink{Uri: "file:///" + strings.Repeat("x", 200)}}}
	tests := []struct {
		name       string
		in         *mcppoolv1.CallResult
		want       []string // for each block, a part of its text
		cut        bool
		structured string
	}{
		{"fits", &mcppoolv1.CallResult{Content: []*mcppoolv1.Content{textBlock("ab"), imageBlock(50)}}, []string{"ab", ""}, false, ""},
		{"text", &mcppoolv1.CallResult{Content: []*mcppoolv1.Content{textBlock(strings.Repeat("a", 150)), textBlock("b"), textBlock("c")}},
			[]string{"[cut off: 50 more bytes; the result has more than the 100 bytes that the pool allows]", "[2 more blocks"}, true, ""},
		{"between characters", &mcppoolv1.CallResult{Content: []*mcppoolv1.Content{textBlock("a"), resource}}, []string{"a", "[cut off: 102 more bytes"}, true, ""},
		{"image", &mcppoolv1.CallResult{Content: []*mcppoolv1.Content{imageBlock(101), textBlock("b")}}, []string{"[an image (image/png) of 101 bytes was left out", "b"}, true, ""},
		{"blob", &mcppoolv1.CallResult{Content: []*mcppoolv1.Content{blob, link}}, []string{"[the resource file:///b of 200 bytes was left out", "[a link of 208 bytes was left out"}, true, ""},
		{"structured", &mcppoolv1.CallResult{StructuredJson: `{"a":"` + strings.Repeat("x", 100) + `"}`, IsError: true, Content: []*mcppoolv1.Content{textBlock("ab")}},
			[]string{"[the structured content of 108 bytes was left out", "ab"}, true, ""},
		{"structured left out, texts kept", &mcppoolv1.CallResult{StructuredJson: `{"a":"` + strings.Repeat("x", 82) + `"}`, Content: []*mcppoolv1.Content{textBlock(strings.Repeat("b", 50)), textBlock(strings.Repeat("c", 50))}},
			[]string{"[the structured content of 90 bytes was left out", strings.Repeat("b", 50), strings.Repeat("c", 50)}, true, ""},
		{"both fit", &mcppoolv1.CallResult{StructuredJson: `{"a":"` + strings.Repeat("x", 42) + `"}`, Content: []*mcppoolv1.Content{textBlock(strings.Repeat("b", 50))}},
			[]string{strings.Repeat("b", 50)}, false, `{"a":"` + strings.Repeat("x", 42) + `"}`},
		{"structured kept, text cut", &mcppoolv1.CallResult{StructuredJson: `{"a":"` + strings.Repeat("x", 82) + `"}`, Content: []*mcppoolv1.Content{textBlock(strings.Repeat("b", 101))}},
			[]string{"[cut off: 91 more bytes"}, true, `{"a":"` + strings.Repeat("x", 82) + `"}`},
		{"neither fits", &mcppoolv1.CallResult{StructuredJson: `{"a":"` + strings.Repeat("x", 100) + `"}`, Content: []*mcppoolv1.Content{textBlock(strings.Repeat("b", 150))}},
			[]string{"[the structured content of 108 bytes was left out", "[cut off: 50 more bytes"}, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := proto.CloneOf(tt.in)
			shorten(got, 100)
			if got.GetTruncated() != tt.cut || got.GetStructuredJson() != tt.structured || got.GetIsError() != tt.in.GetIsError() || len(got.GetContent()) != len(tt.want) {
				t.Fatalf("got %v", got)
			}
			for i, want := range tt.want {
				text := got.GetContent()[i].GetText() + got.GetContent()[i].GetResource().GetText()
				if !strings.Contains(text, want) || strings.ContainsRune(text, '\uFFFD') {
					t.Errorf("block %d = %q, want %q", i+1, text, want)
				}
			}
		})
	}
}
