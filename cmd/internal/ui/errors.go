package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/humantime"
)

// The exit codes.
const (
	Done    = 0  // the task or the command succeeded
	Failed  = 1  // the task or the command failed
	Stopped = 2  // the task was cancelled or waits for a person, or the command was interrupted
	Usage   = 64 // the command line is invalid
)

// Error is an error that ends a command.
type Error struct {
	Message string // what is wrong; empty if the command has printed it already
	Next    string // what to do; may be empty
	Code    int

	cause error
}

// Errorf returns an error with the exit code Failed.
func Errorf(format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Message: err.Error(), Code: Failed, cause: errors.Unwrap(err)}
}

// WrapError is like Errorf, and keeps the cause for errors.Is and errors.As. The cause is not printed.
func WrapError(cause error, format string, args ...any) *Error {
	e := Errorf(format, args...)
	e.cause = cause
	return e
}

// Usagef returns an error with the exit code Usage.
func Usagef(format string, args ...any) *Error {
	e := Errorf(format, args...)
	e.Code = Usage
	return e
}

// Exit returns an error that sets the exit code and prints nothing.
func Exit(code int) *Error { return &Error{Code: code} }

// Then returns a copy with the advice on what to do next.
func (e *Error) Then(format string, args ...any) *Error {
	c := *e
	c.Next = format
	if len(args) > 0 {
		c.Next = fmt.Sprintf(format, args...)
	}
	return &c
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// AsError turns any error into an Error; nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, context.Canceled) {
		return &Error{Message: "interrupted", Code: Stopped, cause: err}
	}
	var typed *errs.Error
	if _, isStatus := status.FromError(err); !isStatus && !errors.As(err, &typed) {
		return &Error{Message: err.Error(), Code: Failed, cause: err}
	}
	return fromService(errs.From(err))
}

func fromService(e *errs.Error) *Error {
	if e.Code == codes.Canceled {
		return &Error{Message: "interrupted", Code: Stopped, cause: e}
	}
	if e.Code == codes.Unimplemented && strings.Contains(e.Message, "unknown service") {
		return WrapError(e, "this server lacks a service that the command needs (%s)", e.Message).
			Then("if Pawl runs as separate processes, --server is the address of the executor (port 7412); add --pool if the pool is not at port 7414 of that host, and --planner if the planner is not at port 7413")
	}
	if e.Code == codes.Unavailable && strings.Contains(e.Message, "connection error") {
		return WrapError(e, "no Pawl server answers (%s)", e.Message).Then("start one with pawl up, or name its gRPC address with --server")
	}
	message, next := splitAdvice(describe(e), nextSteps[e.Reason])
	if e.RetryAfter > 0 && !strings.Contains(e.Message, "try again in") {
		message += fmt.Sprintf(" (try again in %s)", humantime.AtLeast(e.RetryAfter))
	}
	code := Failed
	switch {
	case e.Reason == commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE && strings.Contains(e.Message, "is disabled"):
		next = "" // a disabled server cannot be activated
	case e.Reason == commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, e.Reason == commonv1.ErrorReason_ERROR_REASON_TASK_NOT_ENDED:
		message, _, _ = strings.Cut(message, "; ") // nextSteps has the same advice
	case e.Code == codes.InvalidArgument && e.Reason == commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST: // the command line is at fault
		code = Usage
		if next == "" && slices.ContainsFunc(e.Violations, func(v errs.Violation) bool { return v.Field == "model" }) {
			next = "pawl models shows the models there are"
		}
	}
	return &Error{Message: message, Next: next, Code: code, cause: e}
}

// nextSteps has the advice for error reasons whose messages contain none.
var nextSteps = map[commonv1.ErrorReason]string{
	commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND:         "pawl tasks shows the tasks there are",
	commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND:        "pawl agents list shows the agents there are; pawl agents create makes one",
	commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND:   "pawl mcp list shows the servers there are; pawl mcp add registers one",
	commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE:  "pawl mcp activate ID lets your tasks use it",
	commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE: testServer,
	commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR:     testServer,
	commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND:         "pawl mcp tools shows the tools there are",
	commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED:        "give your API key with --key or PAWL_KEY; an operator makes one with pawl keys add. If the server accepts an OpenID Connect issuer: pawl login",
	commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED:      "ask an operator, or use a key that may do that",
	commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS:         "choose another id, or change or remove the existing one",
	commonv1.ErrorReason_ERROR_REASON_TASK_NOT_ENDED:         "pawl cancel TASK ends it",
	commonv1.ErrorReason_ERROR_REASON_DATA_DAMAGED:           "stop the server, then pawl store check says what is damaged",
	commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN:          showTask,
	commonv1.ErrorReason_ERROR_REASON_TASK_ENDED:             showTask,
}

const (
	testServer = "pawl mcp test ID checks each step of the connection, pawl mcp logs ID shows what the server's program wrote"
	showTask   = "pawl show TASK shows its state and its open questions"
)

// describe returns the error's message and violations, with flags instead of the request's fields.
func describe(e *errs.Error) string {
	if text := sameFieldViolations(e); text != "" {
		return text
	}
	var lines []string
	listed := strings.HasPrefix(e.Message, "the request is not valid: ") // the message repeats the violations
	for _, v := range e.Violations {
		if !listed && !strings.HasPrefix(e.Message, v.Field+": ") && covers(e.Message, v) {
			continue
		}
		if line := strings.TrimSpace(fieldName(v.Field) + " " + plainRule(v.Description)); !slices.Contains(lines, line) {
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

// sameFieldViolations returns all violations as lines if they are of one field and the message contains only the first; else "".
func sameFieldViolations(e *errs.Error) string {
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

// covers reports whether a message contains the description of a violation or names its field.
func covers(message string, v errs.Violation) bool {
	name := v.Field[strings.LastIndexByte(v.Field, '.')+1:]
	return strings.Contains(message, v.Description) || slices.Contains(strings.FieldsFunc(message, func(r rune) bool {
		return (r < 'a' || r > 'z') && r != '_'
	}), name)
}

// fieldNames maps fields of requests to their names on the command line. Fields in sameNameFlags are left out.
var fieldNames = map[string]string{
	"id": "the id", "mcp_server_id": "the id", "agent_id": "the agent's id", "goal": "the goal",
	"http.url": "--url", "http.headers": "--header", "http.oauth.client_id": "--client-id", "http.oauth.client_secret": "--client-secret",
	"http.oauth.scopes": "--scope", "stdio.command": "the command", "stdio.args": "an argument of the command", "stdio.env": "--env", "stdio.cwd": "--cwd",
	"permissions": "--deny, --ask or --allow", "permissions.tools": "--deny, --ask or --allow", "tool_policies": "--effect", "roots": "--root",
	"sampling.model": "--sampling", "sampling.max_tokens": "--sample-tokens", "sampling.max_requests": "--sample-requests", "max_run_time": "--max-time", "inputs_json": "--inputs",
}

// sameNameFlags are the fields of requests that have a flag of the same name.
var sameNameFlags = []string{
	"call_timeout", "start_timeout", "cache_ttl", "max_connections", "model", "description", "max_steps", "max_failed_steps",
	"max_tool_calls", "max_model_calls", "max_tokens", "wait_timeout", "request_id", "playbook",
}

// fieldName returns the command line's name of a request's field, or else the field's name in words.
func fieldName(path string) string {
	path = regexp.MustCompile(`\[[^\]]*\]`).ReplaceAllString(path, "")
	for _, prefix := range []string{"mcp_server.", "agent.", "budget."} {
		path = strings.TrimPrefix(path, prefix)
	}
	if word, ok := fieldNames[path]; ok {
		return word
	}
	if slices.Contains(sameNameFlags, path) {
		return "--" + strings.ReplaceAll(path, "_", "-")
	}
	return cmp.Or(strings.ReplaceAll(path, "_", " "), "the request")
}

// plainRule rewrites the message of a validation rule in plain words.
func plainRule(text string) string {
	if pattern, ok := strings.CutPrefix(text, "does not match regex pattern "); ok {
		return describePattern(strings.Trim(pattern, "`"))
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
		d, _ := time.ParseDuration(seconds) // 9 digits are always valid
		return humantime.Text(d)
	})
}

// describePattern describes a regular expression of the contracts in words.
func describePattern(pattern string) string {
	const ends = "of 1 to 64 characters, the first and the last one a letter or digit"
	switch pattern {
	case "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$":
		return "must be lower-case letters, digits, - and _, " + ends
	case "^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$":
		return "must be lower-case letters, digits and -, " + ends
	}
	return fmt.Sprintf("is not of the form %s", pattern)
}

// splitAdvice cuts the advice to run a pawl command off the end of a service's message, and returns both. It returns next instead if the message
// has no advice, or if next starts with the same command.
func splitAdvice(message, next string) (string, string) {
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
	if args, isSame := strings.CutPrefix(next, "pawl "+command); isSame && strings.HasPrefix(args, " ") {
		return message[:cut], next // next is at least as specific
	}
	tail, _, _ = strings.Cut(tail, " or GET /")
	return message[:cut], strings.ReplaceAll(tail, "`", "")
}
