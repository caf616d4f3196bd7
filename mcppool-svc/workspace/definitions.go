package workspace

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/mark3labs/mcp-go/mcp"
)

// Each file is one entry of tools/list, as clients see it.
//
//go:embed definitions/*.json
var definitionFiles embed.FS

// definitions returns the tools as MCP shows them, in file-name order. The
// schemas stay raw: mcp.Tool drops keywords that it does not know.
func definitions() ([]mcp.Tool, error) {
	files, err := definitionFiles.ReadDir("definitions")
	if err != nil {
		return nil, fmt.Errorf("read the workspace tools' definitions: %w", err)
	}
	tools := make([]mcp.Tool, 0, len(files))
	for _, file := range files {
		raw, err := definitionFiles.ReadFile(path.Join("definitions", file.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the workspace tools' definitions: %w", err)
		}
		tool, err := parseDefinition(raw)
		if err != nil {
			return nil, fmt.Errorf("workspace tool definition %s: %w", file.Name(), err)
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

func parseDefinition(raw []byte) (tool mcp.Tool, err error) {
	var schemas struct {
		Input  json.RawMessage `json:"inputSchema"`
		Output json.RawMessage `json:"outputSchema"`
	}
	if err := errors.Join(json.Unmarshal(raw, &tool), json.Unmarshal(raw, &schemas)); err != nil {
		return mcp.Tool{}, err
	}
	tool.InputSchema, tool.OutputSchema = mcp.ToolInputSchema{}, mcp.ToolOutputSchema{}
	tool.RawInputSchema, tool.RawOutputSchema = schemas.Input, schemas.Output
	return tool, nil
}
