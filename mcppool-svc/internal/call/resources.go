package call

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// maxParts bounds what one resource, or one prompt, may consist of.
const maxParts = 1_000

func aboutResource(uri string) subject {
	return subject{
		what: fmt.Sprintf("resource %.200q", uri), missing: commonv1.ErrorReason_ERROR_REASON_RESOURCE_NOT_FOUND,
		has: func(c mcp.Capabilities) bool { return c.Resources }, offering: "resources",
	}
}

// Read reads a resource.
func (c *Caller) Read(ctx context.Context, use conn.Use, uri string) (*mcppoolv1.ReadResourceResponse, error) {
	var raw json.RawMessage
	err := c.offered(ctx, use, aboutResource(uri), func(ctx context.Context, o mcp.Offers) (err error) {
		raw, err = o.ReadResource(ctx, uri)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := c.small(use.Server, "resource", raw); err != nil {
		return nil, err
	}
	out, err := readContents(raw)
	if err != nil {
		return nil, unreadable(use.Server, "resource", err)
	}
	return out, nil
}

// small refuses content over the limit of a result.
func (c *Caller) small(server *registry.Server, what string, raw json.RawMessage) error {
	if limit := c.deps.MaxResult; limit > 0 && len(raw) > limit {
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE,
			"the %s of MCP server %s has %.1f MiB; the limit is %.1f", what, server.ID, float64(len(raw))/(1<<20), float64(limit)/(1<<20))
	}
	return nil
}

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

// ReadResourceInfo reads an entry of resources/list.
func ReadResourceInfo(raw json.RawMessage) (*mcppoolv1.ResourceInfo, error) {
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	out := &mcppoolv1.ResourceInfo{}
	var size float64
	err = members(fields, member{"uri", &out.Uri}, member{"name", &out.Name}, member{"title", &out.Title},
		member{"description", &out.Description}, member{"mimeType", &out.MimeType}, member{"size", &size})
	if err != nil {
		return nil, err
	}
	if size > 0 && size < 1<<63 {
		out.Size = uint64(size)
	}
	cleanAll(&out.Uri, &out.Name, &out.Title, &out.Description, &out.MimeType)
	return out, named("uri", out.Uri)
}

// ReadResourceTemplate reads an entry of resources/templates/list.
func ReadResourceTemplate(raw json.RawMessage) (*mcppoolv1.ResourceTemplate, error) {
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, err
	}
	out := &mcppoolv1.ResourceTemplate{}
	err = members(fields, member{"uriTemplate", &out.UriTemplate}, member{"name", &out.Name}, member{"title", &out.Title},
		member{"description", &out.Description}, member{"mimeType", &out.MimeType})
	if err != nil {
		return nil, err
	}
	cleanAll(&out.UriTemplate, &out.Name, &out.Title, &out.Description, &out.MimeType)
	return out, named("uriTemplate", out.UriTemplate)
}

func named(key, value string) error {
	if value == "" {
		return fmt.Errorf("`%s` is missing", key)
	}
	return nil
}

func cleanAll(texts ...*string) {
	for _, t := range texts {
		*t = clean(*t)
	}
}
