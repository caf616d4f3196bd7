package call

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// parse reads the raw result of a tool, checks it against the tool's output schema and cuts it to the size limit.
func (a *attempt) parse(raw json.RawMessage, tool *catalog.Tool) (*mcppoolv1.CallResult, error) {
	result, err := readResult(raw)
	if err != nil {
		return nil, Explain(Executing, err).With(errs.OutcomeKey, errs.OutcomeKnown)
	}
	if err := a.checkOutput(tool, result); err != nil {
		return nil, err
	}
	if limit := a.deps.MaxResult; limit > 0 && len(raw) > limit {
		shorten(result, limit)
	}
	return result, nil
}

// checkOutput compares structured content with the tool's output schema. A tool that breaks its schema ran all the same: the outcome is
// KNOWN, and the error carries the content, so that the tool is not run again to see it.
func (a *attempt) checkOutput(tool *catalog.Tool, result *mcppoolv1.CallResult) error {
	if tool == nil || tool.Output == "" || result.StructuredJson == "" || result.IsError {
		return nil
	}
	output, err := tool.OutputSchema()
	if err != nil {
		a.deps.Log.Warn("a tool's output schema is not valid; its results are not checked", "mcp_id", a.Server.ID, "tool", tool.Name, "error", err)
		return nil
	}
	if err := output.ValidateDocument(strictjson.Checked(result.StructuredJson)); err != nil {
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
			"the tool %s/%s ran, but its result does not fit its own output schema: %v; do not call it again to get another one",
			a.Server.ID, tool.Name, err).
			With(errs.OutcomeKey, errs.OutcomeKnown).With("structured_json", result.StructuredJson)
	}
	return nil
}

// readResult reads a raw tools/call result. An error means that the tool ran, but its result cannot be read.
func readResult(raw json.RawMessage) (*mcppoolv1.CallResult, error) {
	out := &mcppoolv1.CallResult{}
	var kind string
	var content json.RawMessage
	err := strictjson.EachMember(raw, func(key, value []byte) error {
		switch string(key) {
		case "resultType":
			return readText(key, value, &kind)
		case "isError":
			if out.IsError = string(value) == "true"; !out.IsError && !strictjson.Absent(value) && string(value) != "false" {
				return errors.New("`isError` cannot be read: it is not a boolean")
			}
		case "content":
			content = value
		case "structuredContent":
			if !strictjson.Absent(value) {
				out.StructuredJson = clean(string(value))
			}
		}
		return nil
	})
	if err != nil {
		return nil, broken("its result is not one of a tool: %w", err)
	}
	if kind != "" && kind != "complete" {
		return nil, broken("it is of the type %.40q, which is not known", kind)
	}
	if strictjson.Absent(content) {
		return out, nil
	}
	if strictjson.Kind(content) != "array" {
		return nil, broken("its result is not one of a tool: `content` cannot be read: it is not a JSON array")
	}
	for block := range strictjson.Items(content) {
		c, err := readContent(block)
		if err != nil {
			return nil, broken("block %d of its content: %w", len(out.Content)+1, err)
		}
		out.Content = append(out.Content, c)
	}
	return out, nil
}

// readText reads a string, if present. Members match by their exact names; encoding/json would ignore the letter case.
func readText(key []byte, raw json.RawMessage, to *string) error {
	switch {
	case strictjson.Absent(raw):
		return nil
	case raw[0] != '"':
		return fmt.Errorf("`%s` cannot be read: it is not a string", key)
	}
	*to = clean(string(strictjson.Unquote(raw)))
	return nil
}

// rawContent is one block of a result, or the resource in it; which fields count depends on the type.
type rawContent struct {
	typ, text, data, mimeType, uri, name, description, blob string
	resource                                                json.RawMessage
}

func (c *rawContent) take(key, value []byte) error {
	var to *string
	switch string(key) {
	case "type":
		to = &c.typ
	case "text":
		to = &c.text
	case "data":
		to = &c.data
	case "mimeType":
		to = &c.mimeType
	case "uri":
		to = &c.uri
	case "name":
		to = &c.name
	case "description":
		to = &c.description
	case "blob":
		to = &c.blob
	case "resource":
		c.resource = value
		return nil
	default:
		return nil
	}
	return readText(key, value, to)
}

func readContent(raw json.RawMessage) (*mcppoolv1.Content, error) {
	var c rawContent
	if err := strictjson.EachMember(raw, c.take); err != nil {
		return nil, err
	}
	switch c.typ {
	case "text":
		return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Text{Text: c.text}}, nil
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
			Uri: c.uri, Name: c.name, Description: c.description, MimeType: c.mimeType,
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
	return &mcppoolv1.Blob{Data: data, MimeType: c.mimeType}, nil
}

func readResource(raw json.RawMessage) (*mcppoolv1.Resource, error) {
	var c rawContent
	if err := strictjson.EachMember(raw, c.take); err != nil {
		return nil, fmt.Errorf("its resource cannot be read: %w", err)
	}
	blob, err := decode64(c.blob)
	if err != nil {
		return nil, fmt.Errorf("its blob is not base64: %w", err)
	}
	return &mcppoolv1.Resource{Uri: c.uri, MimeType: c.mimeType, Text: c.text, Blob: blob}, nil
}

// decode64 also takes base64 without padding, which some servers send.
func decode64(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
}

// clean makes a server's text valid UTF-8, as protobuf requires.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func broken(format string, args ...any) *mcp.Error {
	e := mcp.Errorf(mcp.Protocol, "the tool ran, but "+format, args...)
	e.Sent, e.Ended = true, true
	return e
}
