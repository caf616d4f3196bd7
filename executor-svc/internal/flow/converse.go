package flow

import (
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// The questions of a task that answers a message of a topic.
type (
	// Decide asks the planner whether and how the agent responds. It ends with Decided.
	Decide struct{}
	// ListTools loads the tools. It ends with ToolsListed.
	ListTools struct {
		// MaxServers, if not 0, bounds ToolsListed.Servers: of more servers, the planner chooses.
		MaxServers int
	}
	// SelectTools asks the planner for the next calls of one server's tools. It ends with ToolsSelected.
	SelectTools struct{ McpID string }
	// Summarize asks the planner to summarize the lane's steps. It ends with Summarized.
	Summarize struct{}
	// SummarizeConversation asks the planner to summarize the older messages if the conversation does not fit. It ends with Summarized.
	SummarizeConversation struct{}
	// Respond asks the planner for one further call or the whole reply. It ends with Responded.
	Respond struct {
		// MessageType is the class of the message.
		MessageType string
		// MustComplete allows no further call.
		MustComplete bool
		// Errors are the reports of servers that cannot be used, which the reply explains.
		Errors []string
	}
)

func (Decide) question()                {}
func (ListTools) question()             {}
func (SelectTools) question()           {}
func (Summarize) question()             {}
func (SummarizeConversation) question() {}
func (Respond) question()               {}

type (
	// Decided ends Decide.
	Decided struct {
		Kind       conversationv1.AgentDecision_Kind
		Reason     string
		Question   string
		DelegateTo string
		Err        *storagev1.ErrorNote
		Usage      *storagev1.Usage
	}
	// ToolsListed ends ListTools.
	ToolsListed struct {
		Tools *storagev1.ToolsLoaded
		// Servers are the servers to use.
		Servers []string
		// Call is the call that the message asks for; nil if it asks for none.
		Call  *PlannedStep
		Err   *storagev1.ErrorNote
		Usage *storagev1.Usage
	}
	// ToolsSelected ends SelectTools.
	ToolsSelected struct {
		Steps []*PlannedStep
		Err   *storagev1.ErrorNote
		Usage *storagev1.Usage
	}
	// Summarized ends Summarize and SummarizeConversation.
	Summarized struct {
		// Text is empty if nothing had to be summarized.
		Text string
		// ToSeq is the seq of the newest message that the summary of a conversation covers.
		ToSeq uint64
		Err   *storagev1.ErrorNote
		Usage *storagev1.Usage
	}
	// Responded ends Respond.
	Responded struct {
		// Call is the call that comes next; nil if Text is the reply.
		Call *PlannedStep
		Text string
		// Result is the text of the newest call's result, cut.
		Result string
		Gathered
		Err   *storagev1.ErrorNote
		Usage *storagev1.Usage
	}
)

func (Decided) input()       {}
func (ToolsListed) input()   {}
func (ToolsSelected) input() {}
func (Summarized) input()    {}
func (Responded) input()     {}
