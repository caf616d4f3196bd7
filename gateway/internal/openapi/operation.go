package openapi

import (
	"fmt"
	"net/http"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"pawl.dev/gateway/internal/rest"
	"pawl.dev/gateway/internal/stream"
)

// complete adds to an operation a summary, how it fails, and how it streams.
func complete(op *yaml.Node, rt *rest.Route) error {
	set(op, "summary", scalar(firstSentence(text(op, "description"))))
	problem, err := nodeOf(map[string]string{"$ref": "#/components/responses/Problem"})
	if err != nil {
		return err
	}
	set(get(op, "responses"), "default", problem)
	if !rt.Streams() {
		return nil
	}
	answer, err := streamAnswer(rt)
	if stream.IsDocument(rt.RPC) {
		answer, err = documentAnswer()
	}
	if err != nil {
		return err
	}
	set(get(op, "responses"), "200", answer)
	if rt.RPC.Input().Fields().ByName("after_seq") == nil {
		return nil
	}
	return resumable(op, rt)
}

// firstSentence returns the first sentence or clause of a description, without its stop.
func firstSentence(s string) string {
	const long = 80
	for _, stop := range []string{". ", ": ", "; "} {
		first, _, _ := strings.Cut(s, stop)
		if s = strings.TrimSuffix(first, "."); len(s) <= long {
			break
		}
	}
	return s
}

// streamAnswer returns the 200 response of a stream, which the generator takes for a single message.
func streamAnswer(rt *rest.Route) (*yaml.Node, error) {
	schema := map[string]any{"$ref": "#/components/schemas/" + string(rt.RPC.Output().Name())}
	answer := map[string]any{
		"description": "A stream. Server-Sent Events: `event` names the message, `data` is the message as one line of JSON, a comment every 15 s " +
			"keeps the connection open, and the event `end` (or `error`, with a problem) is the last one; its data is `{\"lastSeq\": 7, \"status\": \"…\"}`, with lastSeq as a number. NDJSON: one message a line; " +
			"a line with the single member `error` is the last one.",
		"content": map[string]any{
			"text/event-stream":    map[string]any{"schema": schema},
			"application/x-ndjson": map[string]any{"schema": schema},
		},
	}
	if isEvent(rt.RPC.Output()) {
		answer["headers"] = map[string]any{"Pawl-Task-Id": map[string]any{
			"description": "The task, where its first event came in time.",
			"schema":      map[string]any{"type": "string"},
		}}
	}
	return nodeOf(answer)
}

// documentAnswer returns the 200 response of a document that comes in pieces over gRPC.
func documentAnswer() (*yaml.Node, error) {
	return nodeOf(map[string]any{
		"description": "The document itself. A connection that breaks before its end brought a part of it only.",
		"headers": map[string]any{"Content-Disposition": map[string]any{
			"description": "A file name for it.",
			"schema":      map[string]any{"type": "string"},
		}},
		"content": map[string]any{"application/json": map[string]any{"schema": map[string]any{"type": "object"}}},
	})
}

func isEvent(md protoreflect.MessageDescriptor) bool { return md.Name() == "ExecutorEvent" }

// resumable adds the header that an EventSource sends when it reconnects.
func resumable(op *yaml.Node, rt *rest.Route) error {
	header, err := nodeOf(map[string]any{
		"name": "Last-Event-ID", "in": "header",
		"description": "Events up to this seq are not sent. Wins over `afterSeq`; an EventSource sends it by itself.",
		"schema":      map[string]any{"type": "string"},
	})
	if err != nil {
		return err
	}
	parameters := get(op, "parameters")
	if parameters == nil {
		return fmt.Errorf("it has no parameters, though it takes after_seq")
	}
	parameters.Content = append(parameters.Content, header)
	if rt.Method != http.MethodGet {
		return nil
	}
	nothing, err := nodeOf(map[string]any{
		"description": "The task has ended and nothing follows the Last-Event-ID: do not connect again.",
	})
	if err != nil {
		return err
	}
	set(get(op, "responses"), "204", nothing)
	return nil
}
