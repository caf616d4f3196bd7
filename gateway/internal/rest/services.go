package rest

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// Conns are the connections to the services.
type Conns struct {
	Executor grpc.ClientConnInterface
	Pool     grpc.ClientConnInterface
	Planner  grpc.ClientConnInterface
}

// service is one gRPC service that is served as REST.
type service struct {
	descriptor protoreflect.ServiceDescriptor
	conn       grpc.ClientConnInterface
}

// services lists the services that are served as REST. A new service is one entry here.
func (c Conns) services() []service {
	return []service{
		{executorv1.File_pawl_executor_v1_executor_service_proto.Services().ByName("ExecutorService"), c.Executor},
		{executorv1.File_pawl_executor_v1_agent_service_proto.Services().ByName("AgentService"), c.Executor},
		{executorv1.File_pawl_executor_v1_webhook_service_proto.Services().ByName("WebhookService"), c.Executor},
		{conversationv1.File_pawl_conversation_v1_topic_service_proto.Services().ByName("TopicService"), c.Executor},
		{pipelinev1.File_pawl_pipeline_v1_completion_proto.Services().ByName("CompletionService"), c.Executor},
		{mcppoolv1.File_pawl_mcppool_v1_mcppool_proto.Services().ByName("McpPoolService"), c.Pool},
		{identityv1.File_pawl_identity_v1_identity_proto.Services().ByName("IdentityService"), c.Executor},
		{plannerv1.File_pawl_planner_v1_planner_proto.Services().ByName("PlannerService"), c.Planner},
	}
}
