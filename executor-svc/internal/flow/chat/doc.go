// Package chat is the flow that answers a message of a topic. Its facts about the topic (flow.Transition.Posts) say what the agent does: that it
// has received the message, whether it responds, the pieces of its reply, and the reply as a message.
//
// It works in one of two ways. In rounds, each server of the task (at most 3) has a lane of its own, in which the planner selects tools, calls
// are made one after the other, and the planner selects again; lane 0 waits for the servers and then replies (rounds.go). In phases, the message
// passes six phases, and a further call re-enters the flow as a message of its own (phases.go). Both use package step for calls.
//
// It is pure: it must not know the engine, the journal, the planner or the pool.
package chat
