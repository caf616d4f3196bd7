package modeltest

import (
	"strings"
	"testing"
)

const chatScript = `
chat:
  rules:
  - {agent: alice, message: '^count (\S+)$', decide: {decision: DELEGATE, delegate_to: bert}}
  - {message: '^read (\S+)$', calls: [{name: read_file, arguments: {path: a.txt}}], reply: I have read $1.}
`

func TestChat(t *testing.T) {
	script, err := Parse(chatScript)
	if err != nil {
		t.Fatal(err)
	}
	request := func(agent, message, question string) *Request {
		return &Request{
			System: "You are " + agent + ", an agent in a conversation of people and agents.", Tools: []string{"workspace_read_file"},
			Texts: []string{"The newest message, from ann\n" + message, question},
		}
	}
	decide := request("alice", "count sheep", "How should you respond to it?")
	decide.Format = "decide"
	read, done := request("bert", "read a.txt", selectTools), request("bert", "read a.txt", selectTools)
	done.Calls = []MadeCall{{Name: "workspace_read_file", Result: "step-1 succeeded: x"}}
	for want, r := range map[string]*Request{
		`"delegate_to":"bert"`:                   decide,
		"read_file":                              read,
		"none":                                   done,
		"I have read a.txt.":                     request("bert", "read a.txt", "Write "+writeReply),
		"A summary.":                             {System: summarize},
		"no rule is for the message":             request("bert", "count sheep", "Write "+writeReply),
		"unexpected request":                     request("bert", "read a.txt", "What?"),
		"tells no agent what the newest message": {System: "You are helpful."},
	} {
		turn, err := script.Chat.turn(r)
		var got string
		if err != nil {
			got = err.Error()
		} else if got = turn.Text + string(turn.JSON); len(turn.Calls) > 0 {
			got += turn.Calls[0].Name
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if _, err := Parse("chat: {rules: [{message: '('}]}"); err == nil || !strings.Contains(err.Error(), "chat.rules[0]") {
		t.Errorf("an invalid expression: %v", err)
	}
}
