package clitest

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// UpdateMcpServer updates the fields of the mask, and records the request.
func (p *Pool) UpdateMcpServer(_ context.Context, req *mcppoolv1.UpdateMcpServerRequest) (*mcppoolv1.McpServer, error) {
	now := req.GetMcpServer()
	if old := p.Server(now.GetId()); old != nil && old.GetEtag() != now.GetEtag() {
		return nil, errs.New(codes.Aborted, commonv1.ErrorReason_ERROR_REASON_CONFLICT, "MCP server %s changed since you read it; read it again", now.GetId())
	}
	return p.change(now.GetId(), func(s *mcppoolv1.McpServer) {
		p.Updates = append(p.Updates, proto.CloneOf(req))
		for _, path := range req.GetUpdateMask().GetPaths() {
			if path == "*" {
				proto.Reset(s)
				proto.Merge(s, now)
				continue
			}
			take(s.ProtoReflect(), now.ProtoReflect(), strings.Split(path, "."))
		}
	})
}

func take(to, from protoreflect.Message, path []string) {
	fd := to.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	switch {
	case len(path) > 1:
		take(to.Mutable(fd).Message(), from.Get(fd).Message(), path[1:])
	case from.Has(fd):
		to.Set(fd, from.Get(fd))
	default:
		to.Clear(fd)
	}
}
