package gateway_test

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// journal remembers the calls that reached a service, whatever service it is.
type journal struct {
	mu    sync.Mutex
	calls []call
}

type call struct {
	method string
	md     metadata.MD
	req    any
}

func (j *journal) add(ctx context.Context, method string, req any) {
	md, _ := metadata.FromIncomingContext(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls = append(j.calls, call{method, md, req})
}

// take returns the calls since the last take.
func (j *journal) take() []call {
	j.mu.Lock()
	defer j.mu.Unlock()
	calls := j.calls
	j.calls = nil
	return calls
}

// fakeExecutor answers with its functions, and with an empty message if it has none for a method.
type fakeExecutor struct {
	executorv1.UnimplementedExecutorServiceServer
	journal      *journal
	CreateTaskFn func(*executorv1.CreateTaskRequest) (*executorv1.Task, error)
	GetTaskFn    func(*executorv1.GetTaskRequest) (*executorv1.Task, error)
	ListTasksFn  func(*executorv1.ListTasksRequest) (*executorv1.ListTasksResponse, error)
	RunTaskFn    func(*executorv1.RunTaskRequest, grpc.ServerStreamingServer[executorv1.ExecutorEvent]) error
	WatchTaskFn  func(*executorv1.WatchTaskRequest, grpc.ServerStreamingServer[executorv1.ExecutorEvent]) error
	ExportTaskFn func(*executorv1.ExportTaskRequest, grpc.ServerStreamingServer[executorv1.ExportTaskResponse]) error
}

func (f *fakeExecutor) CreateTask(ctx context.Context, r *executorv1.CreateTaskRequest) (*executorv1.Task, error) {
	f.journal.add(ctx, executorv1.ExecutorService_CreateTask_FullMethodName, r)
	if f.CreateTaskFn != nil {
		return f.CreateTaskFn(r)
	}
	return &executorv1.Task{}, nil
}

func (f *fakeExecutor) GetTask(ctx context.Context, r *executorv1.GetTaskRequest) (*executorv1.Task, error) {
	f.journal.add(ctx, executorv1.ExecutorService_GetTask_FullMethodName, r)
	if f.GetTaskFn != nil {
		return f.GetTaskFn(r)
	}
	return &executorv1.Task{Id: r.GetId()}, nil
}

func (f *fakeExecutor) ListTasks(ctx context.Context, r *executorv1.ListTasksRequest) (*executorv1.ListTasksResponse, error) {
	f.journal.add(ctx, executorv1.ExecutorService_ListTasks_FullMethodName, r)
	if f.ListTasksFn != nil {
		return f.ListTasksFn(r)
	}
	return &executorv1.ListTasksResponse{}, nil
}

func (f *fakeExecutor) ListSteps(ctx context.Context, r *executorv1.ListStepsRequest) (*executorv1.ListStepsResponse, error) {
	f.journal.add(ctx, executorv1.ExecutorService_ListSteps_FullMethodName, r)
	return &executorv1.ListStepsResponse{}, nil
}

func (f *fakeExecutor) ResumeTask(ctx context.Context, r *executorv1.ResumeTaskRequest) (*executorv1.Task, error) {
	f.journal.add(ctx, executorv1.ExecutorService_ResumeTask_FullMethodName, r)
	return &executorv1.Task{Id: r.GetId()}, nil
}

func (f *fakeExecutor) CancelTask(ctx context.Context, r *executorv1.CancelTaskRequest) (*executorv1.Task, error) {
	f.journal.add(ctx, executorv1.ExecutorService_CancelTask_FullMethodName, r)
	return &executorv1.Task{Id: r.GetId()}, nil
}

func (f *fakeExecutor) RunTask(r *executorv1.RunTaskRequest, s grpc.ServerStreamingServer[executorv1.ExecutorEvent]) error {
	f.journal.add(s.Context(), executorv1.ExecutorService_RunTask_FullMethodName, r)
	if f.RunTaskFn != nil {
		return f.RunTaskFn(r, s)
	}
	return nil
}

func (f *fakeExecutor) WatchTask(r *executorv1.WatchTaskRequest, s grpc.ServerStreamingServer[executorv1.ExecutorEvent]) error {
	f.journal.add(s.Context(), executorv1.ExecutorService_WatchTask_FullMethodName, r)
	if f.WatchTaskFn != nil {
		return f.WatchTaskFn(r, s)
	}
	return nil
}

func (f *fakeExecutor) PauseTask(ctx context.Context, r *executorv1.PauseTaskRequest) (*executorv1.Task, error) {
	f.journal.add(ctx, executorv1.ExecutorService_PauseTask_FullMethodName, r)
	return &executorv1.Task{Id: r.GetId()}, nil
}

func (f *fakeExecutor) ForkTask(ctx context.Context, r *executorv1.ForkTaskRequest) (*executorv1.Task, error) {
	f.journal.add(ctx, executorv1.ExecutorService_ForkTask_FullMethodName, r)
	return &executorv1.Task{}, nil
}

func (f *fakeExecutor) GetStoreInfo(ctx context.Context, r *executorv1.GetStoreInfoRequest) (*executorv1.StoreInfo, error) {
	f.journal.add(ctx, executorv1.ExecutorService_GetStoreInfo_FullMethodName, r)
	return &executorv1.StoreInfo{Schema: 2}, nil
}

func (f *fakeExecutor) DeleteTask(ctx context.Context, r *executorv1.DeleteTaskRequest) (*executorv1.DeleteTaskResponse, error) {
	f.journal.add(ctx, executorv1.ExecutorService_DeleteTask_FullMethodName, r)
	return &executorv1.DeleteTaskResponse{}, nil
}

func (f *fakeExecutor) ExportTask(r *executorv1.ExportTaskRequest, s grpc.ServerStreamingServer[executorv1.ExportTaskResponse]) error {
	f.journal.add(s.Context(), executorv1.ExecutorService_ExportTask_FullMethodName, r)
	if f.ExportTaskFn != nil {
		return f.ExportTaskFn(r, s)
	}
	return nil
}

type fakeAgents struct {
	executorv1.UnimplementedAgentServiceServer
	journal *journal
}

func (f *fakeAgents) CreateAgent(ctx context.Context, r *executorv1.CreateAgentRequest) (*executorv1.Agent, error) {
	f.journal.add(ctx, executorv1.AgentService_CreateAgent_FullMethodName, r)
	return r.GetAgent(), nil
}

func (f *fakeAgents) GetAgent(ctx context.Context, r *executorv1.GetAgentRequest) (*executorv1.Agent, error) {
	f.journal.add(ctx, executorv1.AgentService_GetAgent_FullMethodName, r)
	return &executorv1.Agent{Id: r.GetId()}, nil
}

func (f *fakeAgents) ListAgents(ctx context.Context, r *executorv1.ListAgentsRequest) (*executorv1.ListAgentsResponse, error) {
	f.journal.add(ctx, executorv1.AgentService_ListAgents_FullMethodName, r)
	return &executorv1.ListAgentsResponse{}, nil
}

func (f *fakeAgents) UpdateAgent(ctx context.Context, r *executorv1.UpdateAgentRequest) (*executorv1.Agent, error) {
	f.journal.add(ctx, executorv1.AgentService_UpdateAgent_FullMethodName, r)
	return r.GetAgent(), nil
}

func (f *fakeAgents) DeleteAgent(ctx context.Context, r *executorv1.DeleteAgentRequest) (*executorv1.DeleteAgentResponse, error) {
	f.journal.add(ctx, executorv1.AgentService_DeleteAgent_FullMethodName, r)
	return &executorv1.DeleteAgentResponse{}, nil
}

type fakePool struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
	journal             *journal
	CallToolFn          func(*mcppoolv1.CallToolRequest, grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error
	AttachCallFn        func(*mcppoolv1.AttachCallRequest, grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error
	WatchMcpServersFn   func(*mcppoolv1.WatchMcpServersRequest, grpc.ServerStreamingServer[mcppoolv1.WatchMcpServersResponse]) error
	SubscribeResourceFn func(*mcppoolv1.SubscribeResourceRequest, grpc.ServerStreamingServer[mcppoolv1.SubscribeResourceResponse]) error
}

func (f *fakePool) CreateMcpServer(ctx context.Context, r *mcppoolv1.CreateMcpServerRequest) (*mcppoolv1.McpServer, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_CreateMcpServer_FullMethodName, r)
	return r.GetMcpServer(), nil
}

func (f *fakePool) GetMcpServer(ctx context.Context, r *mcppoolv1.GetMcpServerRequest) (*mcppoolv1.McpServer, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_GetMcpServer_FullMethodName, r)
	return &mcppoolv1.McpServer{Id: r.GetId()}, nil
}

func (f *fakePool) ListMcpServers(ctx context.Context, r *mcppoolv1.ListMcpServersRequest) (*mcppoolv1.ListMcpServersResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_ListMcpServers_FullMethodName, r)
	return &mcppoolv1.ListMcpServersResponse{}, nil
}

func (f *fakePool) UpdateMcpServer(ctx context.Context, r *mcppoolv1.UpdateMcpServerRequest) (*mcppoolv1.McpServer, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_UpdateMcpServer_FullMethodName, r)
	return r.GetMcpServer(), nil
}

func (f *fakePool) DeleteMcpServer(ctx context.Context, r *mcppoolv1.DeleteMcpServerRequest) (*mcppoolv1.DeleteMcpServerResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_DeleteMcpServer_FullMethodName, r)
	return &mcppoolv1.DeleteMcpServerResponse{}, nil
}

func (f *fakePool) ActivateMcpServer(ctx context.Context, r *mcppoolv1.ActivateMcpServerRequest) (*mcppoolv1.McpServer, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_ActivateMcpServer_FullMethodName, r)
	return &mcppoolv1.McpServer{Id: r.GetId()}, nil
}

func (f *fakePool) DeactivateMcpServer(ctx context.Context, r *mcppoolv1.DeactivateMcpServerRequest) (*mcppoolv1.McpServer, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_DeactivateMcpServer_FullMethodName, r)
	return &mcppoolv1.McpServer{Id: r.GetId()}, nil
}

func (f *fakePool) ListTools(ctx context.Context, r *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_ListTools_FullMethodName, r)
	return &mcppoolv1.ListToolsResponse{}, nil
}

func (f *fakePool) CallTool(r *mcppoolv1.CallToolRequest, s grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
	f.journal.add(s.Context(), mcppoolv1.McpPoolService_CallTool_FullMethodName, r)
	if f.CallToolFn != nil {
		return f.CallToolFn(r, s)
	}
	return nil
}

func (f *fakePool) ApproveTool(ctx context.Context, r *mcppoolv1.ApproveToolRequest) (*mcppoolv1.ApproveToolResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_ApproveTool_FullMethodName, r)
	return &mcppoolv1.ApproveToolResponse{}, nil
}

func (f *fakePool) AttachCall(r *mcppoolv1.AttachCallRequest, s grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error {
	f.journal.add(s.Context(), mcppoolv1.McpPoolService_AttachCall_FullMethodName, r)
	if f.AttachCallFn != nil {
		return f.AttachCallFn(r, s)
	}
	return nil
}

func (f *fakePool) AckCall(ctx context.Context, r *mcppoolv1.AckCallRequest) (*mcppoolv1.AckCallResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_AckCall_FullMethodName, r)
	return &mcppoolv1.AckCallResponse{}, nil
}

func (f *fakePool) CancelCall(ctx context.Context, r *mcppoolv1.CancelCallRequest) (*mcppoolv1.CancelCallResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_CancelCall_FullMethodName, r)
	return &mcppoolv1.CancelCallResponse{}, nil
}

func (f *fakePool) ReleaseSession(ctx context.Context, r *mcppoolv1.ReleaseSessionRequest) (*mcppoolv1.ReleaseSessionResponse, error) {
	f.journal.add(ctx, mcppoolv1.McpPoolService_ReleaseSession_FullMethodName, r)
	return &mcppoolv1.ReleaseSessionResponse{}, nil
}

type fakePlanner struct {
	plannerv1.UnimplementedPlannerServiceServer
	journal *journal
}

func answer[Request, Response any](ctx context.Context, j *journal, method string, r *Request) (*Response, error) {
	j.add(ctx, method, r)
	return new(Response), nil
}

func (f *fakePlanner) GetFlowName(ctx context.Context, r *plannerv1.GetFlowNameRequest) (*plannerv1.GetFlowNameResponse, error) {
	return answer[plannerv1.GetFlowNameRequest, plannerv1.GetFlowNameResponse](ctx, f.journal, plannerv1.PlannerService_GetFlowName_FullMethodName, r)
}

func (f *fakePlanner) AssessFlowRisk(ctx context.Context, r *plannerv1.AssessFlowRiskRequest) (*plannerv1.AssessFlowRiskResponse, error) {
	return answer[plannerv1.AssessFlowRiskRequest, plannerv1.AssessFlowRiskResponse](ctx, f.journal, plannerv1.PlannerService_AssessFlowRisk_FullMethodName, r)
}

func (f *fakePlanner) PlanSteps(ctx context.Context, r *plannerv1.PlanStepsRequest) (*plannerv1.PlanStepsResponse, error) {
	return answer[plannerv1.PlanStepsRequest, plannerv1.PlanStepsResponse](ctx, f.journal, plannerv1.PlannerService_PlanSteps_FullMethodName, r)
}

func (f *fakePlanner) CreateNextStep(ctx context.Context, r *plannerv1.CreateNextStepRequest) (*plannerv1.CreateNextStepResponse, error) {
	return answer[plannerv1.CreateNextStepRequest, plannerv1.CreateNextStepResponse](ctx, f.journal, plannerv1.PlannerService_CreateNextStep_FullMethodName, r)
}

func (f *fakePlanner) GetFirstInputParams(ctx context.Context, r *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	return answer[plannerv1.GetFirstInputParamsRequest, plannerv1.GetFirstInputParamsResponse](ctx, f.journal, plannerv1.PlannerService_GetFirstInputParams_FullMethodName, r)
}

func (f *fakePlanner) FillParams(ctx context.Context, r *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error) {
	return answer[plannerv1.FillParamsRequest, plannerv1.FillParamsResponse](ctx, f.journal, plannerv1.PlannerService_FillParams_FullMethodName, r)
}

func (f *fakePlanner) AssessToolRisk(ctx context.Context, r *plannerv1.AssessToolRiskRequest) (*plannerv1.AssessToolRiskResponse, error) {
	return answer[plannerv1.AssessToolRiskRequest, plannerv1.AssessToolRiskResponse](ctx, f.journal, plannerv1.PlannerService_AssessToolRisk_FullMethodName, r)
}

func (f *fakePlanner) IsParamError(ctx context.Context, r *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error) {
	return answer[plannerv1.IsParamErrorRequest, plannerv1.IsParamErrorResponse](ctx, f.journal, plannerv1.PlannerService_IsParamError_FullMethodName, r)
}

func (f *fakePlanner) DescribeError(ctx context.Context, r *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error) {
	return answer[plannerv1.DescribeErrorRequest, plannerv1.DescribeErrorResponse](ctx, f.journal, plannerv1.PlannerService_DescribeError_FullMethodName, r)
}

func (f *fakePlanner) GetMissingParams(ctx context.Context, r *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error) {
	return answer[plannerv1.GetMissingParamsRequest, plannerv1.GetMissingParamsResponse](ctx, f.journal, plannerv1.PlannerService_GetMissingParams_FullMethodName, r)
}

func (f *fakePlanner) StreamPlanSteps(r *plannerv1.StreamPlanStepsRequest, s grpc.ServerStreamingServer[plannerv1.StreamPlanStepsResponse]) error {
	f.journal.add(s.Context(), plannerv1.PlannerService_StreamPlanSteps_FullMethodName, r)
	return nil
}

func (f *fakePlanner) Think(r *plannerv1.ThinkRequest, s grpc.ServerStreamingServer[plannerv1.ThinkResponse]) error {
	f.journal.add(s.Context(), plannerv1.PlannerService_Think_FullMethodName, r)
	return nil
}

func (f *fakePlanner) CreatePlan(ctx context.Context, r *plannerv1.CreatePlanRequest) (*plannerv1.CreatePlanResponse, error) {
	return answer[plannerv1.CreatePlanRequest, plannerv1.CreatePlanResponse](ctx, f.journal, plannerv1.PlannerService_CreatePlan_FullMethodName, r)
}

func (f *fakePlanner) Reflect(ctx context.Context, r *plannerv1.ReflectRequest) (*plannerv1.ReflectResponse, error) {
	return answer[plannerv1.ReflectRequest, plannerv1.ReflectResponse](ctx, f.journal, plannerv1.PlannerService_Reflect_FullMethodName, r)
}

func (f *fakePlanner) Decide(ctx context.Context, r *plannerv1.DecideRequest) (*plannerv1.DecideResponse, error) {
	return answer[plannerv1.DecideRequest, plannerv1.DecideResponse](ctx, f.journal, plannerv1.PlannerService_Decide_FullMethodName, r)
}

func (f *fakePlanner) SelectTools(ctx context.Context, r *plannerv1.SelectToolsRequest) (*plannerv1.SelectToolsResponse, error) {
	return answer[plannerv1.SelectToolsRequest, plannerv1.SelectToolsResponse](ctx, f.journal, plannerv1.PlannerService_SelectTools_FullMethodName, r)
}

func (f *fakePlanner) SummarizeMemory(ctx context.Context, r *plannerv1.SummarizeMemoryRequest) (*plannerv1.SummarizeMemoryResponse, error) {
	return answer[plannerv1.SummarizeMemoryRequest, plannerv1.SummarizeMemoryResponse](ctx, f.journal, plannerv1.PlannerService_SummarizeMemory_FullMethodName, r)
}

func (f *fakePlanner) GenerateAnswer(r *plannerv1.GenerateAnswerRequest, s grpc.ServerStreamingServer[plannerv1.GenerateAnswerResponse]) error {
	f.journal.add(s.Context(), plannerv1.PlannerService_GenerateAnswer_FullMethodName, r)
	return nil
}

func (f *fakePlanner) Generate(r *plannerv1.GenerateRequest, s grpc.ServerStreamingServer[plannerv1.GenerateResponse]) error {
	f.journal.add(s.Context(), plannerv1.PlannerService_Generate_FullMethodName, r)
	return nil
}

func (f *fakePlanner) CheckPlaybook(ctx context.Context, r *plannerv1.CheckPlaybookRequest) (*plannerv1.CheckPlaybookResponse, error) {
	return answer[plannerv1.CheckPlaybookRequest, plannerv1.CheckPlaybookResponse](ctx, f.journal, plannerv1.PlannerService_CheckPlaybook_FullMethodName, r)
}

func (f *fakePlanner) ListModels(ctx context.Context, r *plannerv1.ListModelsRequest) (*plannerv1.ListModelsResponse, error) {
	return answer[plannerv1.ListModelsRequest, plannerv1.ListModelsResponse](ctx, f.journal, plannerv1.PlannerService_ListModels_FullMethodName, r)
}
