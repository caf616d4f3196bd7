package call

import (
	"encoding/json"
	"fmt"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/services/strictjson"
)

const (
	// maxParts bounds what one resource, or one prompt, may consist of.
	maxParts = 1_000
	// maxValues is how many completions MCP allows in one answer.
	maxValues = 100
)

// readContents reads a raw resources/read result.
func readContents(raw json.RawMessage) (*mcppoolv1.ReadResourceResponse, error) {
	parts, _, err := partsOf(raw, "contents")
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
	messages, fields, err := partsOf(raw, "messages")
	if err != nil {
		return nil, err
	}
	out := &mcppoolv1.GetPromptResponse{}
	if err := members(fields, member{"description", &out.Description}); err != nil {
		return nil, err
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
	out := &mcppoolv1.PromptMessage{}
	var content json.RawMessage
	if err := readEntry(raw, member{"role", &out.Role}, member{"content", &content}); err != nil {
		return nil, err
	}
	if out.Role != "user" && out.Role != "assistant" {
		return nil, fmt.Errorf("its role %.40q is neither user nor assistant", out.Role)
	}
	var err error
	out.Content, err = readContent(content)
	return out, err
}

// partsOf splits a result that is a list of parts, and returns its other members too.
func partsOf(raw json.RawMessage, key string) ([]json.RawMessage, map[string]json.RawMessage, error) {
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, nil, err
	}
	var kind string
	var parts []json.RawMessage
	if err := members(fields, member{"resultType", &kind}, member{key, &parts}); err != nil {
		return nil, nil, err
	}
	switch {
	case kind == "input_required":
		return nil, nil, fmt.Errorf("it asks for input first, which only tools may")
	case strictjson.Absent(fields[key]):
		return nil, nil, fmt.Errorf("`%s` is missing", key)
	case len(parts) > maxParts:
		return nil, nil, fmt.Errorf("it has more than %d parts", maxParts)
	}
	return parts, fields, nil
}

// ReadPrompt reads an entry of prompts/list.
func ReadPrompt(raw json.RawMessage) (*mcppoolv1.Prompt, error) {
	out := &mcppoolv1.Prompt{}
	var arguments []json.RawMessage
	err := readEntry(raw, member{"name", &out.Name}, member{"title", &out.Title}, member{"description", &out.Description},
		member{"arguments", &arguments})
	if err != nil {
		return nil, err
	}
	if len(arguments) > maxParts {
		return nil, fmt.Errorf("it has more than %d arguments", maxParts)
	}
	for _, a := range arguments {
		p := &mcppoolv1.PromptArgument{}
		if err := readEntry(a, member{"name", &p.Name}, member{"description", &p.Description}, member{"required", &p.Required}); err != nil {
			return nil, fmt.Errorf("an argument of it: %w", err)
		}
		out.Arguments = append(out.Arguments, p)
	}
	return out, nil
}

// ReadResourceInfo reads an entry of resources/list.
func ReadResourceInfo(raw json.RawMessage) (*mcppoolv1.ResourceInfo, error) {
	out := &mcppoolv1.ResourceInfo{}
	var size float64
	err := readEntry(raw, member{"uri", &out.Uri}, member{"name", &out.Name}, member{"title", &out.Title},
		member{"description", &out.Description}, member{"mimeType", &out.MimeType}, member{"size", &size})
	if size > 0 && size < 1<<63 {
		out.Size = uint64(size)
	}
	return out, err
}

// ReadResourceTemplate reads an entry of resources/templates/list.
func ReadResourceTemplate(raw json.RawMessage) (*mcppoolv1.ResourceTemplate, error) {
	out := &mcppoolv1.ResourceTemplate{}
	return out, readEntry(raw, member{"uriTemplate", &out.UriTemplate}, member{"name", &out.Name}, member{"title", &out.Title},
		member{"description", &out.Description}, member{"mimeType", &out.MimeType})
}

// readCompletion reads a raw completion/complete result. What is above MCP's own limit is left out.
func readCompletion(raw json.RawMessage) (*mcppoolv1.CompleteResponse, error) {
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	if fields, err = strictjson.MemberMap(fields["completion"]); err != nil {
		return nil, fmt.Errorf("`completion`: %w", err)
	}
	out := &mcppoolv1.CompleteResponse{}
	var total float64
	if err := members(fields, member{"values", &out.Values}, member{"total", &total}, member{"hasMore", &out.HasMore}); err != nil {
		return nil, err
	}
	if total > 0 && total < 1<<32 {
		out.Total = uint32(total)
	}
	if len(out.Values) > maxValues {
		out.Values, out.HasMore = out.Values[:maxValues], true
	}
	for i := range out.Values {
		out.Values[i] = clean(out.Values[i])
	}
	return out, nil
}

// member is one of an object, and what it is read into.
type member struct {
	key string
	to  any
}

// readEntry reads members of an object. The first of them is a text that must be there.
func readEntry(raw json.RawMessage, all ...member) error {
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return err
	}
	if err := members(fields, all...); err != nil {
		return err
	}
	if *all[0].to.(*string) == "" {
		return fmt.Errorf("`%s` is missing", all[0].key)
	}
	return nil
}

// members decodes the members that are present, and makes texts valid.
func members(fields map[string]json.RawMessage, all ...member) error {
	for _, m := range all {
		if err := readMember(m.key, fields[m.key], m.to); err != nil {
			return err
		}
		if text, ok := m.to.(*string); ok {
			*text = clean(*text)
		}
	}
	return nil
}
