package fake

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// Reconfigure gives the server's configuration a new revision. change, if not nil, gets a copy of each tool and returns the new tool, or
// nil to remove it.
func (p *Pool) Reconfigure(change func(tool *commonv1.Tool) *commonv1.Tool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revision++
	if change == nil {
		return
	}
	var left []*commonv1.Tool
	for _, t := range p.tools {
		if t = change(proto.CloneOf(t)); t != nil {
			left = append(left, t)
		}
	}
	p.tools = left
}

// offered returns the server's tools as they are listed now. Called with mu held.
func (p *Pool) offered() []*commonv1.Tool {
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

// current returns the error for a call that expects another definition or revision, or nil. Called with mu held.
func (p *Pool) current(req *mcppoolv1.CallToolRequest) error {
	for _, t := range p.offered() {
		revision, hash := req.GetExpectedConfigRevision(), req.GetExpectedDefinitionHash()
		if t.GetName() == req.GetName() && (revision == 0 || revision == t.GetConfigRevision()) && (hash == "" || hash == t.GetDefinitionHash()) {
			return nil
		}
	}
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
		"the configuration of MCP server t is not the one that was expected; list its tools again and decide again").
		With(errs.OutcomeKey, errs.OutcomeNotExecuted)
}

// Refused returns the calls that were refused because they expected another definition.
func (p *Pool) Refused() []*mcppoolv1.CallToolRequest { return locked(&p.mu, &p.refused) }
