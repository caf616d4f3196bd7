package call

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

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
			return readText("resultType", value, &kind)
		case "isError":
			return readFlag("isError", value, &out.IsError)
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
func readText(key string, raw json.RawMessage, to *string) error {
	if len(raw) >= 2 && raw[0] == '"' && utf8.Valid(raw) {
		if plain, ok := unescaped(raw[1 : len(raw)-1]); ok {
			*to = plain
			return nil
		}
	}
	text, err := decoded[string](key, raw)
	if err == nil {
		*to = text
	}
	return err
}

// unescaped reads the inside of a string. Tools often return JSON as text, so most escapes are of quotes; it returns false if there are
// escapes of more than one letter.
func unescaped(raw []byte) (string, bool) {
	next := bytes.IndexByte(raw, '\\')
	if next < 0 {
		return string(raw), true
	}
	var b strings.Builder
	b.Grow(len(raw))
	for ; next >= 0; next = bytes.IndexByte(raw, '\\') {
		if next+1 == len(raw) {
			return "", false
		}
		letter := strings.IndexByte(`"\/bfnrt`, raw[next+1])
		if letter < 0 {
			return "", false
		}
		b.Write(raw[:next])
		b.WriteByte("\"\\/\b\f\n\r\t"[letter])
		raw = raw[next+2:]
	}
	b.Write(raw)
	return b.String(), true
}

// readFlag reads a boolean, if present.
func readFlag(key string, raw json.RawMessage, to *bool) error {
	switch string(raw) {
	case "true", "false":
		*to = string(raw) == "true"
		return nil
	}
	flag, err := decoded[bool](key, raw)
	if err == nil {
		*to = flag
	}
	return err
}

// decoded decodes a member into a new value.
func decoded[T any](key string, raw json.RawMessage) (v T, err error) {
	err = readMember(key, raw, &v)
	return v, err
}

// readMember decodes a member, if present.
func readMember(key string, raw json.RawMessage, to any) error {
	if strictjson.Absent(raw) {
		return nil
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("`%s` cannot be read: %w", key, err)
	}
	return nil
}

// rawContent is one block of a result; which fields count depends on the type.
type rawContent struct {
	typ, text, data, mimeType, uri, name, description string
	resource                                          json.RawMessage
}

// take takes a member.
func (c *rawContent) take(key, value []byte) error {
	switch string(key) {
	case "type":
		return readText("type", value, &c.typ)
	case "text":
		return readText("text", value, &c.text)
	case "data":
		return readText("data", value, &c.data)
	case "mimeType":
		return readText("mimeType", value, &c.mimeType)
	case "uri":
		return readText("uri", value, &c.uri)
	case "name":
		return readText("name", value, &c.name)
	case "description":
		return readText("description", value, &c.description)
	case "resource":
		c.resource = value
	}
	return nil
}

func readContent(raw json.RawMessage) (*mcppoolv1.Content, error) {
	var c rawContent
	if err := strictjson.EachMember(raw, c.take); err != nil {
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
	var uri, mimeType, text, data string
	err := strictjson.EachMember(raw, func(key, value []byte) error {
		switch string(key) {
		case "uri":
			return readText("uri", value, &uri)
		case "mimeType":
			return readText("mimeType", value, &mimeType)
		case "text":
			return readText("text", value, &text)
		case "blob":
			return readText("blob", value, &data)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("its resource cannot be read: %w", err)
	}
	blob, err := decode64(data)
	if err != nil {
		return nil, fmt.Errorf("its blob is not base64: %w", err)
	}
	return &mcppoolv1.Resource{Uri: clean(uri), MimeType: clean(mimeType), Text: clean(text), Blob: blob}, nil
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
