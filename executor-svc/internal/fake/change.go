package fake

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// Reconfigure gives the server's configuration a new revision. change, if not nil, gets a copy of each tool and returns the tool that
// replaces it, or nil to remove it.
func (p *Pool) Reconfigure(change func(tool *commonv1.Tool) *commonv1.Tool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revision++
	if change == nil {
		return
	}
	var changed []*commonv1.Tool
	for _, t := range p.tools {
		if t = change(proto.CloneOf(t)); t != nil {
			changed = append(changed, t)
		}
	}
	p.tools = changed
}

// listedTools returns the server's tools as ListTools shows them. Called with mu held.
func (p *Pool) listedTools() []*commonv1.Tool {
	out := make([]*commonv1.Tool, 0, len(p.tools))
	for _, t := range p.tools {
		t = proto.CloneOf(t)
		t.Id, t.McpId, t.ConfigRevision = "t/"+t.GetName(), "t", p.revision
		if t.GetInputSchemaJson() == "" {
			t.InputSchemaJson = EchoSchema
		}
		if t.GetDefinitionHash() == "" {
			t.DefinitionHash = "hash-" + t.GetName()
		}
		out = append(out, t)
	}
	return out
}

// checkExpected returns an error if a call expects another definition or revision. Called with mu held.
func (p *Pool) checkExpected(req *mcppoolv1.CallToolRequest) error {
	for _, t := range p.listedTools() {
		revision, hash := req.GetExpectedConfigRevision(), req.GetExpectedDefinitionHash()
		if t.GetName() == req.GetName() && (revision == 0 || revision == t.GetConfigRevision()) && (hash == "" || hash == t.GetDefinitionHash()) {
			return nil
		}
	}
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
		"the configuration of MCP server t is not the one that was expected; list its tools again and decide again").
		With(errs.OutcomeKey, errs.OutcomeNotExecuted)
}
