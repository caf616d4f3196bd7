package ui

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"pawl.dev/services/errs"
	"pawl.dev/services/humantime"
)

// wrong is what is wrong with a request, in the words of the command line.
func wrong(e *errs.Error) string {
	if text := several(e); text != "" {
		return text
	}
	var lines []string
	listed := strings.HasPrefix(e.Message, "the request is not valid: ") // its message repeats the fields
	for _, v := range e.Violations {
		if !listed && !strings.HasPrefix(e.Message, v.Field+": ") && said(e.Message, v) {
			continue
		}
		if line := strings.TrimSpace(field(v.Field) + " " + rule(v.Description)); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	switch {
	case len(lines) == 0:
		return e.Message
	case listed, strings.HasPrefix(e.Message, e.Violations[0].Field+": "):
		return strings.Join(lines, "\n")
	}
	return e.Message + "\n  " + strings.Join(lines, "\n  ")
}

// several lists all violations of one field of which the message tells the first, as those of a playbook; "" if it is not so.
func several(e *errs.Error) string {
	if len(e.Violations) < 2 {
		return ""
	}
	first := e.Violations[0]
	head, _, found := strings.Cut(e.Message, first.Description)
	if !found || head == "" || strings.HasPrefix(e.Message, first.Field+": ") {
		return ""
	}
	for _, v := range e.Violations {
		if v.Field != first.Field && !strings.HasPrefix(v.Description, "and ") {
			return ""
		}
		head = strings.TrimRight(head, " ") + "\n" + v.Description
	}
	return head
}

// said says whether a message has what a violation says: the same words, or the field by its name.
func said(message string, v errs.Violation) bool {
	name := v.Field[strings.LastIndexByte(v.Field, '.')+1:]
	return strings.Contains(message, v.Description) || slices.Contains(strings.FieldsFunc(message, func(r rune) bool {
		return (r < 'a' || r > 'z') && r != '_'
	}), name)
}

// fields are what the command line calls fields of requests, where it is not their name as a flag.
var fields = map[string]string{
	"id": "the id", "mcp_server_id": "the id", "agent_id": "the agent's id", "goal": "the goal",
	"http.url": "--url", "http.headers": "--header", "http.oauth.client_id": "--client-id", "http.oauth.client_secret": "--client-secret",
	"http.oauth.scopes": "--scope", "stdio.command": "the command", "stdio.args": "an argument of the command", "stdio.env": "--env", "stdio.cwd": "--cwd",
	"permissions": "--deny, --ask or --allow", "permissions.tools": "--deny, --ask or --allow", "tool_policies": "--effect", "roots": "--root",
	"sampling.model": "--sampling", "sampling.max_tokens": "--sample-tokens", "sampling.max_requests": "--sample-requests", "max_run_time": "--max-time", "inputs_json": "--inputs",
}

// flags are fields whose name is that of a flag.
var flags = []string{
	"call_timeout", "start_timeout", "cache_ttl", "max_connections", "model", "description", "max_steps", "max_failed_steps",
	"max_tool_calls", "max_model_calls", "max_tokens", "wait_timeout", "request_id", "playbook",
}

// field is what the command line calls a field of a request; where it has no word for it, the field's name.
func field(path string) string {
	path = regexp.MustCompile(`\[[^\]]*\]`).ReplaceAllString(path, "")
	for _, whole := range []string{"mcp_server.", "agent.", "budget."} {
		path = strings.TrimPrefix(path, whole)
	}
	if word, ok := fields[path]; ok {
		return word
	}
	if slices.Contains(flags, path) {
		return "--" + strings.ReplaceAll(path, "_", "-")
	}
	return cmp.Or(strings.ReplaceAll(path, "_", " "), "the request")
}

// rule says in words what a validation rule says in its own.
func rule(text string) string {
	if pattern, ok := strings.CutPrefix(text, "does not match regex pattern "); ok {
		return patterns(strings.Trim(pattern, "`"))
	}
	switch text {
	case "must be a valid URI":
		return "must be an address, such as https://example.com/mcp"
	case "must be at least 1 characters", "must be at least 1 bytes", "value is required":
		return "must not be empty"
	}
	text = strings.ReplaceAll(text, "must be greater than 0s", "must be more than 0s")
	text = strings.ReplaceAll(text, "greater than or equal to ", "at least ")
	text = strings.ReplaceAll(text, "less than or equal to ", "at most ")
	return regexp.MustCompile(`\b[0-9]{3,9}s\b`).ReplaceAllStringFunc(text, func(seconds string) string {
		d, err := time.ParseDuration(seconds)
		if err != nil {
			return seconds
		}
		return humantime.Text(d)
	})
}

// patterns are those of the contracts.
func patterns(pattern string) string {
	const ends = "of 1 to 64 characters, the first and the last one a letter or digit"
	switch pattern {
	case "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$":
		return "must be lower-case letters, digits, - and _, " + ends
	case "^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$":
		return "must be lower-case letters, digits and -, " + ends
	}
	return fmt.Sprintf("is not of the form %s", pattern)
}

// advised takes the advice out of a message that ends with some, where it would be said twice: services advise their callers, and the
// command line advises too. The advice is what to do next.
func advised(message, next string) (string, string) {
	cut := strings.LastIndex(message, "; ")
	if cut < 0 {
		return message, next
	}
	tail := message[cut+2:]
	_, command, ok := strings.Cut(tail, "`pawl ")
	if !ok {
		return message, next
	}
	command, _, _ = strings.Cut(command, "`")
	if rest, same := strings.CutPrefix(next, "pawl "+command); same && strings.HasPrefix(rest, " ") {
		return message[:cut], next // it says no less
	}
	tail, _, _ = strings.Cut(tail, " or GET /")
	return message[:cut], strings.ReplaceAll(tail, "`", "")
}
