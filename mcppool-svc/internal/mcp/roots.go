package mcp

import (
	"context"
	"encoding/json"
	"net/url"
	"path"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/registry"
)

// options are those of a client: the revisions that it speaks, and what it answers when it is asked.
func (c *Connector) options(s *registry.Server, e era) []mcpclient.ClientOption {
	options := []mcpclient.ClientOption{e.option()}
	if len(s.Roots) > 0 {
		options = append(options, mcpclient.WithRootsHandler(roots(s.Roots)))
	}
	return options
}

// roots are file URIs. They implement client.RootsHandler.
type roots []string

// ListRoots implements client.RootsHandler.
func (r roots) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	result := &mcp.ListRootsResult{}
	for _, uri := range r {
		root := mcp.Root{URI: uri}
		if u, err := url.Parse(uri); err == nil {
			root.Name = path.Base(u.Path)
		}
		result.Roots = append(result.Roots, root)
	}
	return result, nil
}

// declareRoots says that roots can be asked for. They do not change while a connection lasts: others make another one.
func (c *client) declareRoots(request *mcp.InitializeRequest) {
	if len(c.roots) > 0 {
		request.Params.Capabilities.Roots = &struct {
			ListChanged bool `json:"listChanged,omitempty"`
		}{}
	}
}

// rootsResult is the answer to a request for roots that came in a result.
func (c *client) rootsResult() json.RawMessage {
	result, err := roots(c.roots).ListRoots(context.Background(), mcp.ListRootsRequest{})
	if err == nil {
		if raw, err := json.Marshal(result); err == nil {
			return raw
		}
	}
	return json.RawMessage(`{"roots":[]}`)
}
