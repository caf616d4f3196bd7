package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/services/strictjson"
)

const (
	// maxParts bounds the parts of one resource or prompt.
	maxParts = 1_000
	// maxValues is how many completions MCP allows in one answer.
	maxValues = 100
)

// readInto reads an object into a message whose fields have MCP's names. Members without a field are skipped. Duplicate keys are
// refused; texts that are not Unicode, such as emoji cut in half, are made valid.
func readInto(raw json.RawMessage, to proto.Message) error {
	if _, err := strictjson.MemberMap(raw); err != nil { // refuses also keys that differ only in letter case
		return err
	}
	text := jsontext.Value(bytes.Clone(raw))
	if err := text.Format(jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(false)); err != nil {
		return err
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, to)
}

// readContents reads a raw resources/read result.
func readContents(raw json.RawMessage) (*mcppoolv1.ReadResourceResponse, error) {
	parts, err := partsOf(raw, "contents")
	if err != nil {
		return nil, err
	}
	out := &mcppoolv1.ReadResourceResponse{}
	for i, part := range parts {
		r, err := readResource(part)
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i+1, err)
		}
		out.Contents = append(out.Contents, r)
	}
	return out, nil
}

// readMessages reads a raw prompts/get result.
func readMessages(raw json.RawMessage) (*mcppoolv1.GetPromptResponse, error) {
	messages, err := partsOf(raw, "messages")
	if err != nil {
		return nil, err
	}
	out := &mcppoolv1.GetPromptResponse{}
	if description, _ := strictjson.Member(raw, "description"); !strictjson.Absent(description) {
		out.Description = clean(string(strictjson.Unquote(description)))
	}
	for i, message := range messages {
		m, err := readMessage(message)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		out.Messages = append(out.Messages, m)
	}
	return out, nil
}

func readMessage(raw json.RawMessage) (*mcppoolv1.PromptMessage, error) {
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	out := &mcppoolv1.PromptMessage{}
	if err := readText([]byte("role"), fields["role"], &out.Role); err != nil {
		return nil, err
	}
	if out.Role != "user" && out.Role != "assistant" {
		return nil, fmt.Errorf("its role %.40q is neither user nor assistant", out.Role)
	}
	out.Content, err = readContent(fields["content"])
	return out, err
}

// partsOf returns the list under key in a result.
func partsOf(raw json.RawMessage, key string) ([]json.RawMessage, error) {
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	var parts []json.RawMessage
	switch {
	case string(fields["resultType"]) == `"input_required"`:
		return nil, errors.New("it asks for input first, which only tools may")
	case strictjson.Absent(fields[key]):
		return nil, fmt.Errorf("`%s` is missing", key)
	}
	if err := json.Unmarshal(fields[key], &parts); err != nil {
		return nil, fmt.Errorf("`%s` cannot be read: %w", key, err)
	}
	if len(parts) > maxParts {
		return nil, fmt.Errorf("it has more than %d parts", maxParts)
	}
	return parts, nil
}

// ReadPrompt reads an entry of prompts/list.
func ReadPrompt(raw json.RawMessage) (*mcppoolv1.Prompt, error) {
	out := &mcppoolv1.Prompt{}
	if err := readInto(raw, out); err != nil {
		return nil, err
	}
	if len(out.Arguments) > maxParts {
		return nil, fmt.Errorf("it has more than %d arguments", maxParts)
	}
	for _, a := range out.Arguments {
		if a.Name == "" {
			return nil, errors.New("an argument has no `name`")
		}
	}
	return out, required("name", out.Name)
}

// ReadResourceInfo reads an entry of resources/list.
func ReadResourceInfo(raw json.RawMessage) (*mcppoolv1.ResourceInfo, error) {
	out := &mcppoolv1.ResourceInfo{}
	if err := readInto(raw, out); err != nil {
		return nil, err
	}
	return out, required("uri", out.Uri)
}

// ReadResourceTemplate reads an entry of resources/templates/list.
func ReadResourceTemplate(raw json.RawMessage) (*mcppoolv1.ResourceTemplate, error) {
	out := &mcppoolv1.ResourceTemplate{}
	if err := readInto(raw, out); err != nil {
		return nil, err
	}
	return out, required("uriTemplate", out.UriTemplate)
}

func required(key, value string) error {
	if value == "" {
		return fmt.Errorf("`%s` is missing", key)
	}
	return nil
}

// readCompletion reads a raw completion/complete result. Values above MCP's own limit are left out.
func readCompletion(raw json.RawMessage) (*mcppoolv1.CompleteResponse, error) {
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	out := &mcppoolv1.CompleteResponse{}
	if err := readInto(fields["completion"], out); err != nil {
		return nil, fmt.Errorf("`completion`: %w", err)
	}
	if len(out.Values) > maxValues {
		out.Values, out.HasMore = out.Values[:maxValues], true
	}
	return out, nil
}
