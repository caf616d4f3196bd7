package mcpserver

import (
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/strictjson"
)

// fieldsOf returns the members of an object that the pool has checked.
func fieldsOf(object string) fields { return fields{"": []byte(object)}.object("") }

// readResource reads a resource.
func (q *request) readResource() error {
	uri := q.params.text("uri")
	server, bare, err := q.resolveURI(uri)
	if err != nil {
		return err
	}
	resp, err := q.pool.ReadResource(q.Context(), &mcppoolv1.ReadResourceRequest{McpId: server, Uri: bare, Exact: true})
	if err != nil {
		if e := errorOf(err); e.reason == commonv1.ErrorReason_ERROR_REASON_RESOURCE_NOT_FOUND {
			return notFound(uri)
		}
		return err
	}
	o, err := strictjson.ParseObject(resp.GetResultJson())
	if err != nil {
		return err
	}
	if q.server == "" {
		renameItems(o, "contents", func(item string) (string, bool) { return rename(item, "uri", server) })
	}
	if q.modern { // the server's own hints may be for all users
		o.Set("ttlMs", "0")
		o.Set("cacheScope", `"private"`)
	}
	return q.reply(o.String())
}

// renameItems changes the items of a member that is an array of objects.
func renameItems(o *strictjson.Object, member string, change func(item string) (string, bool)) {
	raw, ok := o.Get(member)
	if !ok || strictjson.Kind(raw) != "array" {
		return
	}
	var items []string
	for item := range strictjson.Items(raw) {
		if changed, ok := change(item); ok {
			item = changed
		}
		items = append(items, item)
	}
	o.Set(member, strictjson.Array(items))
}

// renameContent gives the resources in the content of a result their public URIs.
func renameContent(result, server string) string {
	o, err := strictjson.ParseObject(result)
	if err != nil {
		return result
	}
	renameItems(o, "content", func(block string) (string, bool) { return renameBlock(block, server) })
	return o.String()
}

// renameBlock gives a link to a resource, or an embedded one, its public URI.
func renameBlock(block, server string) (string, bool) {
	switch fieldsOf(block).text("type") {
	case "resource_link":
		return rename(block, "uri", server)
	case "resource":
		o, err := strictjson.ParseObject(block)
		if err != nil {
			return "", false
		}
		if inner, ok := o.Get("resource"); ok {
			if renamed, ok := rename(inner, "uri", server); ok {
				o.Set("resource", renamed)
			}
		}
		return o.String(), true
	}
	return "", false
}

// getPrompt returns a prompt.
func (q *request) getPrompt() error {
	server, name, err := q.resolve(q.params.text("name"))
	if err != nil {
		return err
	}
	arguments := map[string]string{}
	for key := range q.params.object("arguments") {
		arguments[key] = q.params.object("arguments").text(key)
	}
	resp, err := q.pool.GetPrompt(q.Context(), &mcppoolv1.GetPromptRequest{McpId: server, Name: name, Arguments: arguments, Exact: true})
	if err != nil {
		return err
	}
	result := resp.GetResultJson()
	if o, err := strictjson.ParseObject(result); err == nil && q.server == "" {
		renameItems(o, "messages", func(m string) (string, bool) {
			message, err := strictjson.ParseObject(m)
			if err != nil {
				return "", false
			}
			if block, ok := message.Get("content"); ok && strictjson.Kind(block) == "object" {
				if renamed, ok := renameBlock(block, server); ok {
					message.Set("content", renamed)
				}
			}
			return message.String(), true
		})
		result = o.String()
	}
	return q.reply(result)
}

// complete completes an argument.
func (q *request) complete() error {
	ref, argument := q.params.object("ref"), q.params.object("argument")
	req := &mcppoolv1.CompleteRequest{Argument: argument.text("name"), Value: argument.text("value"), Context: map[string]string{}}
	given := q.params.object("context").object("arguments")
	for key := range given {
		req.Context[key] = given.text(key)
	}
	var err error
	var name string
	switch ref.text("type") {
	case "ref/prompt":
		req.McpId, name, err = q.resolve(ref.text("name"))
		req.Reference = &mcppoolv1.CompleteRequest_Prompt{Prompt: name}
	case "ref/resource":
		req.McpId, name, err = q.resolveURI(ref.text("uri"))
		req.Reference = &mcppoolv1.CompleteRequest_UriTemplate{UriTemplate: name}
	default:
		err = errorf(invalidParams, "params.ref.type is neither ref/prompt nor ref/resource")
	}
	if err != nil {
		return err
	}
	resp, err := q.pool.Complete(q.Context(), req)
	if err != nil {
		return err
	}
	values := resp.GetValues()
	if values == nil {
		values = []string{}
	}
	completion := map[string]any{"values": values, "hasMore": resp.GetHasMore()}
	if resp.GetTotal() > 0 {
		completion["total"] = resp.GetTotal()
	}
	return q.reply(quote(map[string]any{"completion": completion}))
}
