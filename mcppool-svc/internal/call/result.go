package call

import (
	"encoding/base64"
	"encoding/json"
	"errors"
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

// parseResult reads the raw result of a tool, checks it against the tool's output schema and cuts it to the size limit.
func (a *attempt) parseResult(raw json.RawMessage, tool *catalog.Tool) (*mcppoolv1.CallResult, error) {
	result, err := readResult(raw)
	if err != nil {
		return nil, Explain(Executing, err).With(errs.OutcomeKey, errs.OutcomeKnown)
	}
	if err := a.checkOutput(tool, result); err != nil {
		return nil, err
	}
	if limit := a.deps.MaxResult; limit > 0 && len(raw) > limit {
		shorten(result, limit)
	} else if a.Exact {
		return &mcppoolv1.CallResult{IsError: result.IsError, ResultJson: clean(string(raw))}, nil
	}
	return result, nil
}

// checkOutput checks structured content against the tool's output schema. A tool that violates its schema did run: the outcome is KNOWN,
// and the error carries the content, so that it is not lost.
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
		return nil, broken("its result is not a tool result: %w", err)
	}
	if kind != "" && kind != "complete" {
		return nil, broken("its result has the unknown type %.40q", kind)
	}
	if strictjson.Absent(content) {
		return out, nil
	}
	if strictjson.Kind(content) != "array" {
		return nil, broken("its result is not a tool result: `content` cannot be read: it is not a JSON array")
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

// readText reads a string, if present.
func readText(key []byte, raw json.RawMessage, to *string) error {
	switch {
	case strictjson.Absent(raw):
		return nil
	case raw[0] != '"':
		return fmt.Errorf("`%s` cannot be read: it is not a string", key)
	}
	*to = clean(strictjson.UnquoteString(raw))
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

// decode64 decodes base64 with or without padding, which some servers leave out.
func decode64(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
}

// clean makes a server's text valid UTF-8, as protobuf requires.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func broken(format string, args ...any) *mcp.Error {
	e := mcp.Errorf(mcp.Protocol, "the tool ran, but "+format, args...)
	e.MayHaveRun, e.Ended = true, true
	return e
}

// maxBrief bounds a server's text in a message, in bytes.
const maxBrief = 256

// shorten cuts a result to the limit. Text is cut. Structured content, images, sounds and bytes are left out as a whole; a note, which is not
// counted, takes their place.
//
// Structured content also comes as text (MCP 2025-06-18): models read the text, programs the structure. If they do not both fit, the text is
// kept if it fits whole, else the structured content if it fits.
func shorten(result *mcppoolv1.CallResult, limit int) {
	s := &shortener{remaining: limit, limit: limit}
	var blocks []*mcppoolv1.Content
	structured, content := len(result.StructuredJson), contentSize(result.Content)
	if structured > limit || content <= limit && structured+content > limit {
		result.StructuredJson = ""
		blocks = append(blocks, s.leaveOut("the structured content", structured))
	} else {
		s.remaining -= structured
	}
	for i, block := range result.Content {
		if s.remaining <= 0 {
			blocks = append(blocks, note(fmt.Sprintf("%d more blocks of the result were left out: it has more than the %s that the pool allows",
				len(result.Content)-i, size(limit))))
			s.cut = true
			break
		}
		blocks = append(blocks, s.block(block))
	}
	result.Content, result.Truncated = blocks, s.cut
}

// shortener cuts a result.
type shortener struct {
	remaining, limit int // bytes
	cut              bool
}

// block returns a block, with its text cut if needed, or a note if the block is left out.
func (s *shortener) block(c *mcppoolv1.Content) *mcppoolv1.Content {
	text, what, bytes := partsOfBlock(c)
	switch {
	case text != nil:
		*text = s.text(*text)
	case bytes > s.remaining:
		return s.leaveOut(what, bytes)
	default:
		s.remaining -= bytes
	}
	return c
}

// partsOfBlock returns the text of a block if it can be cut, else a description of the block. bytes counts towards the limit in both cases.
func partsOfBlock(c *mcppoolv1.Content) (text *string, what string, bytes int) {
	switch kind := c.GetKind().(type) {
	case *mcppoolv1.Content_Text:
		return &kind.Text, "", len(kind.Text)
	case *mcppoolv1.Content_Image:
		return nil, "an image (" + brief(kind.Image.GetMimeType()) + ")", len(kind.Image.GetData())
	case *mcppoolv1.Content_Audio:
		return nil, "a sound (" + brief(kind.Audio.GetMimeType()) + ")", len(kind.Audio.GetData())
	case *mcppoolv1.Content_Resource:
		r := kind.Resource
		if len(r.GetBlob()) > 0 {
			return nil, "the resource " + brief(r.GetUri()), len(r.GetBlob()) + len(r.GetText())
		}
		return &r.Text, "", len(r.GetText())
	case *mcppoolv1.Content_ResourceLink:
		l := kind.ResourceLink
		return nil, "a link", len(l.GetUri()) + len(l.GetName()) + len(l.GetDescription()) + len(l.GetMimeType())
	}
	return nil, "", 0
}

func contentSize(blocks []*mcppoolv1.Content) (n int) {
	for _, c := range blocks {
		_, _, bytes := partsOfBlock(c)
		n += bytes
	}
	return n
}

// text cuts a text that is too long, between two characters.
func (s *shortener) text(text string) string {
	if len(text) <= s.remaining {
		s.remaining -= len(text)
		return text
	}
	end := s.remaining
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	s.cut, s.remaining = true, 0
	return strings.Clone(text[:end]) + fmt.Sprintf("\n[cut off: %d more bytes; the result has more than the %s that the pool allows]",
		len(text)-end, size(s.limit))
}

// leaveOut returns the note that replaces content.
func (s *shortener) leaveOut(what string, bytes int) *mcppoolv1.Content {
	s.cut = true
	return note(fmt.Sprintf("%s of %d bytes was left out: the result has more than the %s that the pool allows", what, bytes, size(s.limit)))
}

func note(text string) *mcppoolv1.Content {
	return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Text{Text: "[" + text + "]"}}
}

// brief cuts a server's text to maxBrief.
func brief(s string) string {
	if len(s) <= maxBrief {
		return s
	}
	return strings.ToValidUTF8(s[:maxBrief], "") + "…"
}

func size(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
