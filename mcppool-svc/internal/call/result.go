package call

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/upstream"
)

// rawResult is a tools/call result as servers send it.
type rawResult struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent"`
	IsError    bool              `json:"isError"`
	ResultType string            `json:"resultType"`
}

// rawContent is one block of it; which fields count depends on the type.
type rawContent struct {
	Type        string          `json:"type"`
	Text        string          `json:"text"`
	Data        string          `json:"data"`
	MimeType    string          `json:"mimeType"`
	URI         string          `json:"uri"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Resource    json.RawMessage `json:"resource"`
}

type rawResource struct {
	URI      string `json:"uri"`
	MimeType string `json:"mimeType"`
	Text     string `json:"text"`
	Blob     string `json:"blob"`
}

// readResult reads a raw result. An error means that the tool ran, and that what it gave cannot be read.
func readResult(raw json.RawMessage) (*mcppoolv1.CallResult, error) {
	var r rawResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, broken("its result is not one of a tool: %w", err)
	}
	if r.ResultType == "input_required" {
		return nil, broken("it asks for more input in the middle of the call, which is not supported yet")
	}
	out := &mcppoolv1.CallResult{IsError: r.IsError}
	if len(r.Structured) > 0 && string(r.Structured) != "null" {
		out.StructuredJson = clean(string(r.Structured))
	}
	for i, block := range r.Content {
		c, err := readContent(block)
		if err != nil {
			return nil, broken("block %d of its content: %w", i+1, err)
		}
		out.Content = append(out.Content, c)
	}
	return out, nil
}

func readContent(raw json.RawMessage) (*mcppoolv1.Content, error) {
	var c rawContent
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	switch c.Type {
	case "text":
		return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Text{Text: clean(c.Text)}}, nil
	case "image":
		blob, err := readBlob(c)
		return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Image{Image: blob}}, err
	case "audio":
		blob, err := readBlob(c)
		return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Audio{Audio: blob}}, err
	case "resource":
		resource, err := readResource(c.Resource)
		return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Resource{Resource: resource}}, err
	case "resource_link":
		return &mcppoolv1.Content{Kind: &mcppoolv1.Content_ResourceLink{ResourceLink: &mcppoolv1.ResourceLink{
			Uri: clean(c.URI), Name: clean(c.Name), Description: clean(c.Description), MimeType: clean(c.MimeType),
		}}}, nil
	default:
		return nil, fmt.Errorf("its type %.40q is not known", c.Type)
	}
}

func readBlob(c rawContent) (*mcppoolv1.Blob, error) {
	data, err := decode64(c.Data)
	if err != nil {
		return nil, fmt.Errorf("its data is not base64: %w", err)
	}
	return &mcppoolv1.Blob{Data: data, MimeType: clean(c.MimeType)}, nil
}

func readResource(raw json.RawMessage) (*mcppoolv1.Resource, error) {
	var r rawResource
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("its resource cannot be read: %w", err)
	}
	blob, err := decode64(r.Blob)
	if err != nil {
		return nil, fmt.Errorf("its blob is not base64: %w", err)
	}
	return &mcppoolv1.Resource{Uri: clean(r.URI), MimeType: clean(r.MimeType), Text: clean(r.Text), Blob: blob}, nil
}

// decode64 also takes base64 without padding, which some servers send.
func decode64(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
}

// clean makes a stranger's text fit for protobuf.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func broken(format string, args ...any) *upstream.Error {
	e := upstream.Errorf(upstream.Protocol, "the tool ran, but "+format, args...)
	e.Sent = true
	return e
}
