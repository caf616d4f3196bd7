package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// replier answers requests of a server over streamable HTTP: mcp-go gives its own answers 30 s, and people take longer.
type replier struct {
	url  string
	web  *http.Client
	conn *client
}

func (p *replier) send(ctx context.Context, response *transport.JSONRPCResponse) error {
	body, err := json.Marshal(response)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if session := p.conn.wire.GetSessionId(); session != "" {
		request.Header.Set(mcp.HeaderSessionID, session)
	}
	request.Header.Set(mcp.HeaderProtocolVersion, p.conn.mcp.ProtocolVersion())
	got, err := p.web.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = got.Body.Close() }()
	if got.StatusCode != http.StatusOK && got.StatusCode != http.StatusAccepted && got.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the server answered HTTP %s", statusText(got.StatusCode))
	}
	return nil
}
