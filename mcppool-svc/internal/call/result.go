package call

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/strict"
	"pawl.dev/mcppool-svc/internal/upstream"
)

// rawContent is one block of a result; which fields count depends on the type.
type rawContent struct {
	typ, text, data, mimeType, uri, name, description string
	resource                                          json.RawMessage
}

// readResult reads a raw tools/call result. An error means that the tool ran, and that what it gave cannot be read.
func readResult(raw json.RawMessage) (*mcppoolv1.CallResult, error) {
	fields, err := strict.Object(raw)
	if err != nil {
		return nil, broken("its result is not one of a tool: %w", err)
	}
	out := &mcppoolv1.CallResult{}
	var blocks []json.RawMessage
	var kind string
	if err := members(fields, member{"resultType", &kind}, member{"isError", &out.IsError}, member{"content", &blocks}); err != nil {
		return nil, broken("its result is not one of a tool: %w", err)
	}
	if kind != "" && kind != "complete" {
		return nil, broken("it is of the type %.40q, which is not known", kind)
	}
	if structured := fields["structuredContent"]; !strict.Absent(structured) {
		out.StructuredJson = clean(string(structured))
	}
	for i, block := range blocks {
		c, err := readContent(block)
		if err != nil {
			return nil, broken("block %d of its content: %w", i+1, err)
		}
		out.Content = append(out.Content, c)
	}
	return out, nil
}

// member is one of an object, and what it is read into.
type member struct {
	key string
	to  any
}

// members reads those that are there. They are looked up by their exact names, as no decoder into a struct does.
func members(fields map[string]json.RawMessage, all ...member) error {
	for _, m := range all {
		if strict.Absent(fields[m.key]) {
			continue
		}
		if err := json.Unmarshal(fields[m.key], m.to); err != nil {
			return fmt.Errorf("`%s` cannot be read: %w", m.key, err)
		}
	}
	return nil
}

func readContent(raw json.RawMessage) (*mcppoolv1.Content, error) {
	fields, err := strict.Object(raw)
	if err != nil {
		return nil, err
	}
	c := rawContent{resource: fields["resource"]}
	err = members(fields, member{"type", &c.typ}, member{"text", &c.text}, member{"data", &c.data}, member{"mimeType", &c.mimeType},
		member{"uri", &c.uri}, member{"name", &c.name}, member{"description", &c.description})
	if err != nil {
		return nil, err
	}
	switch c.typ {
	case "text":
		return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Text{Text: clean(c.text)}}, nil
	case "image":
		blob, err := readBlob(c)
		return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Image{Image: blob}}, err
	case "audio":
		blob, err := readBlob(c)
		return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Audio{Audio: blob}}, err
	case "resource":
		resource, err := readResource(c.resource)
		return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Resource{Resource: resource}}, err
	case "resource_link":
		return &mcppoolv1.Content{Kind: &mcppoolv1.Content_ResourceLink{ResourceLink: &mcppoolv1.ResourceLink{
			Uri: clean(c.uri), Name: clean(c.name), Description: clean(c.description), MimeType: clean(c.mimeType),
		}}}, nil
	default:
		return nil, fmt.Errorf("its type %.40q is not known", c.typ)
	}
}

func readBlob(c rawContent) (*mcppoolv1.Blob, error) {
	data, err := decode64(c.data)
	if err != nil {
		return nil, fmt.Errorf("its data is not base64: %w", err)
	}
	return &mcppoolv1.Blob{Data: data, MimeType: clean(c.mimeType)}, nil
}

func readResource(raw json.RawMessage) (*mcppoolv1.Resource, error) {
	fields, err := strict.Object(raw)
	if err != nil {
		return nil, fmt.Errorf("its resource cannot be read: %w", err)
	}
	var r rawContent
	if err := members(fields, member{"uri", &r.uri}, member{"mimeType", &r.mimeType}, member{"text", &r.text}, member{"blob", &r.data}); err != nil {
		return nil, fmt.Errorf("its resource cannot be read: %w", err)
	}
	blob, err := decode64(r.data)
	if err != nil {
		return nil, fmt.Errorf("its blob is not base64: %w", err)
	}
	return &mcppoolv1.Resource{Uri: clean(r.uri), MimeType: clean(r.mimeType), Text: clean(r.text), Blob: blob}, nil
}

// decode64 also takes base64 without padding, which some servers send.
func decode64(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
}

// clean makes a stranger's text fit for protobuf.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func broken(format string, args ...any) *upstream.Error {
	e := upstream.Errorf(upstream.Protocol, "the tool ran, but "+format, args...)
	e.Sent, e.Ended = true, true
	return e
}
