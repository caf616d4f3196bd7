package gateway_test

import (
	"context"

	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

func (f *fakePool) AnswerCall(ctx context.Context, r *mcppoolv1.AnswerCallRequest) (*mcppoolv1.AnswerCallResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_AnswerCall_FullMethodName, r)
	return &mcppoolv1.AnswerCallResponse{}, nil
}

func (f *fakePool) WatchMcpServers(r *mcppoolv1.WatchMcpServersRequest, s grpc.ServerStreamingServer[mcppoolv1.WatchMcpServersResponse]) error {
	f.journal.add(s.Context(), mcppoolv1.McpPoolService_WatchMcpServers_FullMethodName, r)
	if f.WatchMcpServersFn != nil {
		return f.WatchMcpServersFn(r, s)
	}
	return nil
}

func (f *fakePool) TestMcpServer(ctx context.Context, r *mcppoolv1.TestMcpServerRequest) (*mcppoolv1.TestMcpServerResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_TestMcpServer_FullMethodName, r)
	return &mcppoolv1.TestMcpServerResponse{}, nil
}

func (f *fakePool) GetMcpServerLog(ctx context.Context, r *mcppoolv1.GetMcpServerLogRequest) (*mcppoolv1.GetMcpServerLogResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_GetMcpServerLog_FullMethodName, r)
	return &mcppoolv1.GetMcpServerLogResponse{}, nil
}

func (f *fakePool) ListResources(ctx context.Context, r *mcppoolv1.ListResourcesRequest) (*mcppoolv1.ListResourcesResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_ListResources_FullMethodName, r)
	return &mcppoolv1.ListResourcesResponse{}, nil
}

func (f *fakePool) ListResourceTemplates(ctx context.Context, r *mcppoolv1.ListResourceTemplatesRequest) (*mcppoolv1.ListResourceTemplatesResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_ListResourceTemplates_FullMethodName, r)
	return &mcppoolv1.ListResourceTemplatesResponse{}, nil
}

func (f *fakePool) ReadResource(ctx context.Context, r *mcppoolv1.ReadResourceRequest) (*mcppoolv1.ReadResourceResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_ReadResource_FullMethodName, r)
	return &mcppoolv1.ReadResourceResponse{}, nil
}

func (f *fakePool) SubscribeResource(r *mcppoolv1.SubscribeResourceRequest, s grpc.ServerStreamingServer[mcppoolv1.SubscribeResourceResponse]) error {
	f.journal.add(s.Context(), mcppoolv1.McpPoolService_SubscribeResource_FullMethodName, r)
	if f.SubscribeResourceFn != nil {
		return f.SubscribeResourceFn(r, s)
	}
	return nil
}

func (f *fakePool) ListPrompts(ctx context.Context, r *mcppoolv1.ListPromptsRequest) (*mcppoolv1.ListPromptsResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_ListPrompts_FullMethodName, r)
	return &mcppoolv1.ListPromptsResponse{}, nil
}

func (f *fakePool) GetPrompt(ctx context.Context, r *mcppoolv1.GetPromptRequest) (*mcppoolv1.GetPromptResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_GetPrompt_FullMethodName, r)
	return &mcppoolv1.GetPromptResponse{}, nil
}

func (f *fakePool) Complete(ctx context.Context, r *mcppoolv1.CompleteRequest) (*mcppoolv1.CompleteResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_Complete_FullMethodName, r)
	return &mcppoolv1.CompleteResponse{}, nil
}

func (f *fakePool) StartMcpLogin(ctx context.Context, r *mcppoolv1.StartMcpLoginRequest) (*mcppoolv1.StartMcpLoginResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_StartMcpLogin_FullMethodName, r)
	return &mcppoolv1.StartMcpLoginResponse{}, nil
}

func (f *fakePool) FinishMcpLogin(ctx context.Context, r *mcppoolv1.FinishMcpLoginRequest) (*mcppoolv1.FinishMcpLoginResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_FinishMcpLogin_FullMethodName, r)
	return &mcppoolv1.FinishMcpLoginResponse{}, nil
}

func (f *fakePool) DeleteMcpLogin(ctx context.Context, r *mcppoolv1.DeleteMcpLoginRequest) (*mcppoolv1.DeleteMcpLoginResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_DeleteMcpLogin_FullMethodName, r)
	return &mcppoolv1.DeleteMcpLoginResponse{}, nil
}
