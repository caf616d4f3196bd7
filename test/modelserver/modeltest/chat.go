package modeltest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Chat is what a model says in conversations. It keeps no state: an answer depends on the request alone, so it is the same again after a crash.
type Chat struct {
	// Rules are tried in order; the first one for the agent and the newest message answers.
	Rules []ChatRule `json:"rules"`
}

// ChatRule says how an agent treats a message.
type ChatRule struct {
	// Agent is the agent's name in the topic; empty: any agent.
	Agent string `json:"agent"`
	// Message is a regular expression for the newest message.
	Message string `json:"message"`
	// Decide answers whether the agent responds, such as {decision: SILENT}; absent: it replies.
	Decide json.RawMessage `json:"decide"`
	// Calls are made before the reply, until each has its result.
	Calls []Call `json:"calls"`
	// Reply is the reply. $1 stands for what the first group of Message matched.
	Reply string `json:"reply"`
	// Pause comes between two pieces of the reply.
	Pause Seconds `json:"pause"`
}

// check returns an error for a rule that cannot be used. c may be nil.
func (c *Chat) check() error {
	if c == nil {
		return nil
	}
	for i, rule := range c.Rules {
		expressions := []string{rule.Message}
		for _, call := range rule.Calls {
			expressions = append(expressions, call.Expect)
		}
		for _, e := range expressions {
			if _, err := regexp.Compile(e); err != nil {
				return fmt.Errorf("the script: chat.rules[%d]: %w", i, err)
			}
		}
	}
	return nil
}

var (
	agentLine   = regexp.MustCompile(`(?m)^You are (\S+), an agent in a conversation`)
	messageLine = regexp.MustCompile(`(?m)^The newest message(?:, from .+)?\n(.+)$`)
)

const (
	selectTools = "Call all tools that this message needs"
	writeReply  = "your reply now"
	summarize   = "Summarize what follows"
)

// turn returns the answer to a request.
func (c *Chat) turn(r *Request) (*Turn, error) {
	all := r.System + "\n" + strings.Join(r.Texts, "\n")
	if strings.Contains(all, summarize) {
		return &Turn{Text: "A summary."}, nil
	}
	agent, message := agentLine.FindStringSubmatch(all), messageLine.FindStringSubmatch(all)
	if agent == nil || message == nil {
		return nil, fmt.Errorf("the request tells no agent what the newest message is: %s", all)
	}
	i := slices.IndexFunc(c.Rules, func(rule ChatRule) bool {
		return (rule.Agent == "" || rule.Agent == agent[1]) && regexp.MustCompile(rule.Message).MatchString(message[1])
	})
	if i < 0 {
		return nil, fmt.Errorf("no rule is for the message %q to %s", message[1], agent[1])
	}
	rule := c.Rules[i]
	text := regexp.MustCompile(rule.Message)
	reply := string(text.ExpandString(nil, rule.Reply, message[1], text.FindStringSubmatchIndex(message[1])))
	switch {
	case r.Format == "decide":
		if rule.Decide == nil {
			rule.Decide = json.RawMessage(`{"decision":"REPLY","reason":"the script says so"}`)
		}
		return &Turn{JSON: rule.Decide}, nil
	case r.Format != "":
		return nil, fmt.Errorf("unexpected question %s", r.Format)
	case strings.Contains(r.last(), selectTools):
		due := slices.DeleteFunc(slices.Clone(rule.Calls), func(call Call) bool { return slices.ContainsFunc(r.Calls, call.isFulfilledBy) })
		if len(due) == 0 {
			return &Turn{Text: "none"}, nil
		}
		return (&Thought{Calls: due}).turn()
	case strings.Contains(r.last(), writeReply):
		return &Turn{Text: reply, Pause: rule.Pause}, nil
	}
	return nil, fmt.Errorf("unexpected request: %s", r.last())
}
