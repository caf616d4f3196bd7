package rest

import (
	"context"
	"fmt"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
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
	register   func(context.Context, *runtime.ServeMux) error
}

// services are all that there are. A new service is one entry here.
func (c Conns) services() []service {
	return []service{
		{
			descriptor: executorv1.File_pawl_executor_v1_executor_service_proto.Services().ByName("ExecutorService"),
			conn:       c.Executor,
			register: func(ctx context.Context, mux *runtime.ServeMux) error {
				return executorv1.RegisterExecutorServiceHandlerClient(ctx, mux, executorv1.NewExecutorServiceClient(c.Executor))
			},
		},
		{
			descriptor: executorv1.File_pawl_executor_v1_agent_service_proto.Services().ByName("AgentService"),
			conn:       c.Executor,
			register: func(ctx context.Context, mux *runtime.ServeMux) error {
				return executorv1.RegisterAgentServiceHandlerClient(ctx, mux, executorv1.NewAgentServiceClient(c.Executor))
			},
		},
		{
			descriptor: mcppoolv1.File_pawl_mcppool_v1_mcppool_proto.Services().ByName("McpPoolService"),
			conn:       c.Pool,
			register: func(ctx context.Context, mux *runtime.ServeMux) error {
				return mcppoolv1.RegisterMcpPoolServiceHandlerClient(ctx, mux, mcppoolv1.NewMcpPoolServiceClient(c.Pool))
			},
		},
		{
			descriptor: plannerv1.File_pawl_planner_v1_planner_proto.Services().ByName("PlannerService"),
			conn:       c.Planner,
			register: func(ctx context.Context, mux *runtime.ServeMux) error {
				return plannerv1.RegisterPlannerServiceHandlerClient(ctx, mux, plannerv1.NewPlannerServiceClient(c.Planner))
			},
		},
	}
}

// register puts the services on the mux.
func register(ctx context.Context, mux *runtime.ServeMux, services []service) error {
	for _, s := range services {
		if err := s.register(ctx, mux); err != nil {
			return fmt.Errorf("serve %s as REST: %w", s.descriptor.FullName(), err)
		}
	}
	return nil
}
