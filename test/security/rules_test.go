package security

import "google.golang.org/grpc/codes"

// access says who may make a request.
type access int

const (
	// own: the request touches nothing but the caller's own data and names no object. Every user may make it.
	own access = iota
	// view: every user may make it and gets an answer of its own, in which nothing of ann is.
	view
	// named: the request names an object of ann. To other users, operators and services it does not exist.
	named
	// operators: only operators may make it.
	operators
	// operatorsAndOwner: operators and ann, whom the request names, may make the call.
	operatorsAndOwner
	// operatorsOnAnothers: only operators may make it, and it names an object of ann.
	operatorsOnAnothers
	// services: only services may make it, for themselves.
	services
	// delegates: only services may make it, on behalf of a user.
	delegates
)

// rule says who may call an RPC, by an example request. An RPC may have several rules, with different requests.
type rule struct {
	rpc    string // its service and method
	who    access
	body   string     // the request of those who may make it, as JSON; $task and the like are objects of ann (world.objects)
	ok     codes.Code // how it ends for those who may make it
	shows  string     // text that only the answers to allowed callers contain
	self   bool       // services must not make it on behalf of a user
	change bool       // it changes the state
}

const (
	executor = "pawl.executor.v1.ExecutorService/"
	agents   = "pawl.executor.v1.AgentService/"
	hooks    = "pawl.executor.v1.WebhookService/"
	topics   = "pawl.conversation.v1.TopicService/"
	complete = "pawl.pipeline.v1.CompletionService/"
	pool     = "pawl.mcppool.v1.McpPoolService/"
	peers    = "pawl.mcppool.v1.McpPoolPeerService/"
	planner  = "pawl.planner.v1.PlannerService/"
	keys     = "pawl.identity.v1.IdentityService/"
	whoAmI   = keys + "WhoAmI"
)

// marker is in all texts of ann.
const marker = "anns-secret-7c1"

// rules has at least one rule for each RPC. Those who may make the requests make them in this order in the end.
var rules = []rule{
	{rpc: whoAmI, who: view, body: `{}`, shows: `"ann"`},
	{rpc: keys + "ListApiKeys", who: view, body: `{}`, shows: marker, self: true},
	{rpc: keys + "CreateApiKey", who: operators, body: `{"sub": "eve", "roles": ["ROLE_OPERATOR"]}`, self: true, change: true},
	{rpc: keys + "RevokeApiKey", who: named, body: `{"id": "$spare"}`, self: true, change: true},

	{rpc: executor + "CreateTask", who: own, body: `{"goal": "say hello"}`, change: true},
	{rpc: executor + "RunTask", who: own, body: `{"task": {"goal": "say hello"}}`, change: true},
	{rpc: executor + "CreateTask", who: named, body: `{"goal": "say hello", "agentId": "$agent"}`, change: true},
	{rpc: executor + "CreateTask", who: named, body: `{"goal": "say hello", "mcpIds": ["$server"]}`, change: true},
	{rpc: executor + "WatchTask", who: named, body: `{"id": "$done"}`, shows: marker},
	{rpc: executor + "GetTask", who: named, body: `{"id": "$task"}`, shows: marker},
	{rpc: executor + "ListTasks", who: view, body: `{}`, shows: marker},
	{rpc: executor + "ListSteps", who: named, body: `{"id": "$done"}`, shows: marker},
	{rpc: executor + "GetTaskResult", who: named, body: `{"id": "$done"}`, shows: marker},
	{rpc: executor + "ExportTask", who: named, body: `{"id": "$done"}`},
	{rpc: executor + "GetStoreInfo", who: operators, body: `{}`},
	{rpc: executor + "ForkTask", who: named, body: `{"id": "$done"}`, change: true},
	{rpc: executor + "PauseTask", who: named, body: `{"id": "$task"}`, change: true},
	{rpc: executor + "ResumeTask", who: named, body: `{"id": "$task", "unpause": {}}`, change: true},
	{rpc: executor + "ResumeTask", who: named, body: `{"id": "$task", "waitId": "$wait", "reject": {}}`, change: true},
	{rpc: executor + "CancelTask", who: named, body: `{"id": "$task"}`, change: true},
	{rpc: executor + "DeleteTask", who: named, body: `{"id": "$done"}`, change: true},

	{rpc: complete + "Complete", who: own, body: `{"messages": [{"role": 1, "parts": [{"text": "hello"}]}]}`, ok: codes.FailedPrecondition},
	{rpc: complete + "Complete", who: named, body: `{"mcpIds": ["$server"], "messages": [{"role": 1, "parts": [{"text": "hello"}]}]}`, ok: codes.FailedPrecondition},
	{rpc: complete + "StreamComplete", who: own, body: `{"completion": {"messages": [{"role": 1, "parts": [{"text": "hello"}]}]}}`, ok: codes.FailedPrecondition},
	{rpc: complete + "StreamComplete", who: named, body: `{"completion": {"mcpIds": ["$server"], "messages": [{"role": 1, "parts": [{"text": "hello"}]}]}}`, ok: codes.FailedPrecondition},

	{rpc: agents + "CreateAgent", who: own, body: `{"agent": {"displayName": "x"}}`, change: true},
	{rpc: agents + "CreateAgent", who: operators, body: `{"agent": {"confirm": "CONFIRM_NEVER"}}`, change: true},
	{rpc: agents + "GetAgent", who: named, body: `{"id": "$agent"}`, shows: marker},
	{rpc: agents + "ListAgents", who: view, body: `{}`, shows: marker},
	{rpc: agents + "UpdateAgent", who: named, body: `{"agent": {"id": "$agent", "displayName": "x"}}`, change: true},
	{rpc: agents + "DeleteAgent", who: named, body: `{"id": "$agent"}`, change: true},

	{rpc: hooks + "CreateWebhook", who: own, body: `{"webhook": {"url": "https://hooks.invalid/", "disabled": true}}`, change: true},
	{rpc: hooks + "CreateWebhook", who: named, body: `{"webhook": {"url": "https://hooks.invalid/", "topicId": "$topic", "disabled": true}}`, change: true},
	{rpc: hooks + "CreateWebhook", who: named, body: `{"webhook": {"url": "https://hooks.invalid/", "agentId": "$spareagent", "disabled": true}}`, change: true},
	{rpc: hooks + "GetWebhook", who: named, body: `{"id": "$webhook"}`, shows: marker},
	{rpc: hooks + "ListWebhooks", who: view, body: `{}`, shows: marker},
	{rpc: hooks + "ListWebhookDeliveries", who: named, body: `{"webhookId": "$webhook"}`, shows: `task.flow_success`},
	{rpc: hooks + "UpdateWebhook", who: named, body: `{"webhook": {"id": "$webhook", "displayName": "x"}}`, change: true},
	{rpc: hooks + "RotateWebhookSecret", who: named, body: `{"id": "$webhook"}`, shows: `whsec_`, change: true},
	{rpc: hooks + "TestWebhook", who: named, body: `{"id": "$webhook"}`},
	{rpc: hooks + "RedeliverWebhookDelivery", who: named, body: `{"webhookId": "$webhook", "id": "$delivery"}`, change: true},
	{rpc: hooks + "DeleteWebhook", who: named, body: `{"id": "$webhook"}`, change: true},

	{rpc: topics + "CreateTopic", who: own, body: `{"topic": {"displayName": "x"}}`, change: true},
	{rpc: topics + "CreateTopic", who: named, body: `{"participants": [{"agentId": "$spareagent"}]}`, change: true},
	{rpc: topics + "GetTopic", who: named, body: `{"id": "$topic"}`, shows: marker},
	{rpc: topics + "ListTopics", who: view, body: `{}`, shows: marker},
	{rpc: topics + "ListParticipants", who: named, body: `{"topicId": "$topic"}`, shows: marker},
	{rpc: topics + "ListMessages", who: named, body: `{"topicId": "$topic"}`, shows: marker},
	{rpc: topics + "WatchTopic", who: named, body: `{"topicId": "$topic", "noFollow": true}`, shows: marker},
	{rpc: topics + "ExportTopic", who: named, body: `{"id": "$topic"}`},
	{rpc: topics + "UpdateTopic", who: named, body: `{"topic": {"id": "$topic", "description": "x"}}`, change: true},
	{rpc: topics + "AddParticipant", who: named, body: `{"topicId": "$topic", "participant": {"userSub": "eve"}}`, change: true},
	{rpc: topics + "PostMessage", who: named, body: `{"topicId": "$topic", "message": {"text": "hello"}}`, change: true},
	{rpc: topics + "InterruptAgent", who: named, body: `{"topicId": "$topic", "name": "helper"}`, change: true},
	{rpc: topics + "RollbackTopic", who: named, body: `{"topicId": "$topic", "all": true}`, change: true},
	{rpc: topics + "RemoveParticipant", who: named, body: `{"topicId": "$topic", "name": "helper"}`, change: true},
	{rpc: topics + "ArchiveTopic", who: named, body: `{"id": "$topic"}`, change: true},
	{rpc: topics + "DeleteTopic", who: named, body: `{"id": "$topic"}`, change: true},

	{rpc: pool + "CreateMcpServer", who: own, body: `{"mcpServerId": "mine", "mcpServer": {"http": {"url": "https://mcp.invalid/"}}}`, change: true},
	{rpc: pool + "CreateMcpServer", who: operators, body: `{"mcpServerId": "program", "mcpServer": {"stdio": {"command": "true"}}}`, change: true},
	{rpc: pool + "CreateMcpServer", who: operators, body: `{"mcpServerId": "theirs", "mcpServer": {"ownerSub": "eve", "http": {"url": "https://mcp.invalid/"}}}`, change: true},
	{rpc: pool + "CreateMcpServer", who: operators, body: `{"mcpServerId": "trusted", "mcpServer": {"trusted": true, "http": {"url": "https://mcp.invalid/"}}}`, change: true},
	{rpc: pool + "GetMcpServer", who: named, body: `{"id": "$server"}`, shows: marker},
	{rpc: pool + "GetMcpServer", who: operatorsAndOwner, body: `{"id": "$server", "ownerSub": "ann"}`, shows: marker},
	{rpc: pool + "ListMcpServers", who: view, body: `{}`, shows: marker},
	{rpc: pool + "ListMcpServers", who: operatorsAndOwner, body: `{"ownerSub": "ann"}`, shows: marker},
	{rpc: pool + "WatchMcpServers", who: view, body: `{}`, shows: marker},
	{rpc: pool + "WatchMcpServers", who: named, body: `{"ids": ["$server"]}`, shows: marker},
	{rpc: pool + "AttachCall", who: named, body: `{"callId": "$call", "requestHash": "$callhash"}`, shows: marker},
	{rpc: pool + "AttachCall", who: delegates, body: `{"callId": "none", "requestHash": "$callhash", "taskId": "x", "mcpId": "$server", "name": "echo"}`, ok: codes.NotFound},
	{rpc: pool + "AnswerCall", who: named, body: `{"callId": "$call", "answer": {"inputId": "i", "action": "ACTION_CANCEL"}}`, ok: codes.FailedPrecondition},
	{rpc: pool + "CancelCall", who: named, body: `{"callId": "$running"}`, change: true},
	{rpc: pool + "AckCall", who: view, body: `{"callIds": ["$call"]}`, shows: `"acknowledged":1`, change: true},
	{rpc: pool + "ReleaseSession", who: view, body: `{"sessionId": "$session"}`, shows: `"released":1`, change: true},
	{rpc: pool + "UpdateMcpServer", who: named, body: `{"mcpServer": {"id": "$server", "description": "x"}}`, change: true},
	{rpc: pool + "UpdateMcpServer", who: operators, body: `{"mcpServer": {"id": "t", "description": "x"}}`, ok: codes.FailedPrecondition},
	{rpc: pool + "UpdateMcpServer", who: operatorsOnAnothers, body: `{"mcpServer": {"id": "$server", "ownerSub": "ann", "trusted": true}}`, change: true},
	{rpc: pool + "UpdateMcpServer", who: operatorsOnAnothers, body: `{"mcpServer": {"id": "$server", "ownerSub": "ann", "roots": ["/tmp"]}}`, change: true},
	{rpc: pool + "UpdateMcpServer", who: operatorsOnAnothers, body: `{"mcpServer": {"id": "$server", "ownerSub": "ann", "http": {"url": "https://mcp.invalid/"}}}`, change: true},
	{rpc: pool + "UpdateMcpServer", who: operatorsOnAnothers, body: `{"mcpServer": {"id": "$server", "ownerSub": "ann", "stdio": {"command": "$program", "env": {"PAWL_TEST_MCP_SERVER": "1", "X": "1"}}}}`, change: true},
	{rpc: pool + "ListTools", who: named, body: `{"mcpId": "$server"}`},
	{rpc: pool + "ApproveTool", who: named, body: `{"mcpId": "$server", "name": "echo", "definitionHash": "$hash"}`, ok: codes.FailedPrecondition, change: true},
	{rpc: pool + "ApproveTool", who: operators, body: `{"mcpId": "t", "name": "echo", "definitionHash": "$hash"}`, ok: codes.FailedPrecondition, change: true},
	{rpc: pool + "CallTool", who: named, body: `{"mcpId": "$server", "name": "append", "input": {"path": "$file", "line": "called"}}`, change: true},
	{rpc: pool + "CallTools", who: named, body: `{"call": {"mcpId": "$server", "name": "append", "input": {"path": "$file", "line": "called"}}}`, change: true},
	{rpc: pool + "TestMcpServer", who: named, body: `{"id": "$server"}`},
	{rpc: pool + "GetMcpServerLog", who: named, body: `{"id": "$server"}`},
	{rpc: pool + "ListResources", who: named, body: `{"mcpId": "$server"}`},
	{rpc: pool + "ListResourceTemplates", who: named, body: `{"mcpId": "$server"}`},
	{rpc: pool + "ReadResource", who: named, body: `{"mcpId": "$server", "uri": "file:///x"}`, ok: codes.FailedPrecondition},
	{rpc: pool + "SubscribeResource", who: named, body: `{"mcpId": "$server", "uri": "file:///x"}`, ok: codes.FailedPrecondition},
	{rpc: pool + "ListPrompts", who: named, body: `{"mcpId": "$server"}`},
	{rpc: pool + "GetPrompt", who: named, body: `{"mcpId": "$server", "name": "x"}`, ok: codes.FailedPrecondition},
	{rpc: pool + "Complete", who: named, body: `{"mcpId": "$server", "prompt": "x", "argument": "y"}`, ok: codes.FailedPrecondition},
	{rpc: pool + "StartMcpLogin", who: named, body: `{"mcpId": "$server"}`, ok: codes.InvalidArgument},
	{rpc: pool + "FinishMcpLogin", who: named, body: `{"state": "unknown", "code": "x"}`, ok: codes.NotFound},
	{rpc: pool + "DeleteMcpLogin", who: named, body: `{"mcpId": "$server"}`, ok: codes.FailedPrecondition},
	{rpc: pool + "DeactivateMcpServer", who: named, body: `{"id": "$server"}`, change: true},
	{rpc: pool + "ActivateMcpServer", who: named, body: `{"id": "$server"}`, change: true},
	{rpc: pool + "DeleteMcpServer", who: operatorsAndOwner, body: `{"id": "none", "ownerSub": "ann"}`, ok: codes.NotFound},
	{rpc: pool + "DeleteMcpServer", who: named, body: `{"id": "$server"}`, change: true},

	{rpc: peers + "PushEntries", who: services, body: `{"hello": {"replica": "r"}, "batch": {}}`, change: true},
	{rpc: peers + "PullEntries", who: services, body: `{"hello": {"replica": "r"}}`},

	{rpc: planner + "GetFlowName", who: own, body: `{"context": {"goal": "say hello"}}`},
	{rpc: planner + "AssessFlowRisk", who: own, body: `{"context": {"goal": "say hello"}}`},
	{rpc: planner + "PlanSteps", who: own, body: `{"context": {"goal": "say hello"}}`},
	{rpc: planner + "StreamPlanSteps", who: own, body: `{"context": {"goal": "say hello"}}`},
	{rpc: planner + "CreateNextStep", who: own, body: `{"context": {"goal": "say hello"}}`},
	{rpc: planner + "GetFirstInputParams", who: own, body: `{"context": {"goal": "say hello"}, "toolId": "t/echo"}`, ok: codes.InvalidArgument},
	{rpc: planner + "FillParams", who: own, body: `{"context": {"goal": "say hello"}, "toolId": "t/echo"}`, ok: codes.InvalidArgument},
	{rpc: planner + "AssessToolRisk", who: own, body: `{"context": {"goal": "say hello"}, "toolId": "t/echo"}`, ok: codes.InvalidArgument},
	{rpc: planner + "IsParamError", who: own, body: `{"context": {"goal": "say hello"}, "toolId": "t/echo"}`, ok: codes.InvalidArgument},
	{rpc: planner + "DescribeError", who: own, body: `{"context": {"goal": "say hello"}, "toolId": "t/echo"}`, ok: codes.InvalidArgument},
	{rpc: planner + "GetMissingParams", who: own, body: `{"context": {"goal": "say hello"}, "toolId": "t/echo"}`, ok: codes.InvalidArgument},
	{rpc: planner + "GenerateAnswer", who: own, body: `{"context": {"goal": "say hello"}}`},
	{rpc: planner + "CreatePlan", who: own, body: `{"context": {"goal": "say hello"}}`, ok: codes.FailedPrecondition},
	{rpc: planner + "Think", who: own, body: `{"context": {"goal": "say hello"}}`},
	{rpc: planner + "Reflect", who: own, body: `{"context": {"goal": "say hello"}}`},
	{rpc: planner + "Decide", who: own, body: `{"context": {"goal": "say hello"}}`},
	{rpc: planner + "Respond", who: own, body: `{"context": {"goal": "say hello"}}`},
	{rpc: planner + "SelectTools", who: own, body: `{"context": {"goal": "say hello"}}`},
	{rpc: planner + "RankTools", who: own, body: `{"query": "say hello"}`},
	{rpc: planner + "SummarizeMemory", who: own, body: `{"context": {"goal": "say hello"}}`},
	{rpc: planner + "CheckPlaybook", who: own, body: `{"playbook": "steps: [{tool: t/echo, input: {text: x}}]"}`},
	{rpc: planner + "Generate", who: own, body: `{"messages": [{"role": 1, "parts": [{"text": "hello"}]}]}`, ok: codes.FailedPrecondition},
	{rpc: planner + "ListModels", who: own, body: `{}`},
}
