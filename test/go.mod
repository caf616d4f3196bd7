module pawl.dev/test

go 1.26.0

require (
	pawl.dev/cmd v0.0.0
	pawl.dev/executor-svc v0.0.0
	pawl.dev/gateway v0.0.0
	pawl.dev/mcppool-svc v0.0.0
	pawl.dev/planner-svc v0.0.0
	pawl.dev/proto v0.0.0
	pawl.dev/services v0.0.0
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/mark3labs/mcp-go v1.2.1 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
)

replace (
	pawl.dev/cmd => ../cmd
	pawl.dev/executor-svc => ../executor-svc
	pawl.dev/gateway => ../gateway
	pawl.dev/mcppool-svc => ../mcppool-svc
	pawl.dev/planner-svc => ../planner-svc
	pawl.dev/proto => ../proto
	pawl.dev/services => ../services
)
