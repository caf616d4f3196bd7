package openapi

import (
	"fmt"
	"net/http"
	"strings"

	"go.yaml.in/yaml/v3"

	"pawl.dev/gateway/internal/rest"
	"pawl.dev/gateway/internal/stream"
)

// complete adds a summary and a problem response to an operation. To a stream it also adds the response, and Last-Event-ID if the stream can be
// resumed.
func complete(op *yaml.Node, rt *rest.Route) error {
	set(op, "summary", scalar(firstSentence(text(op, "description"))))
	responses := get(op, "responses")
	set(responses, "default", ref("responses/Problem"))
	switch {
	case !rt.Streams():
		return nil
	case stream.IsDocument(rt.RPC):
		set(responses, "200", ref("responses/Document"))
	default:
		set(responses, "200", streamResponse(rt))
	}
	if rt.RPC.Input().Fields().ByName("after_seq") == nil {
		return nil
	}
	parameters := get(op, "parameters")
	if parameters == nil {
		return fmt.Errorf("it has no parameters, though it takes after_seq")
	}
	parameters.Content = append(parameters.Content, ref("parameters/LastEventID"))
	if rt.Method == http.MethodGet && rt.RPC.Name() != "WatchTopic" { // a topic does not end
		set(responses, "204", ref("responses/NothingFollows"))
	}
	return nil
}

// firstSentence returns the first sentence or clause of a description, without its stop.
func firstSentence(s string) string {
	const maxLen = 80
	for _, stop := range []string{". ", ": ", "; "} {
		first, _, _ := strings.Cut(s, stop)
		if s = strings.TrimSuffix(first, "."); len(s) <= maxLen {
			break
		}
	}
	return s
}

// aboutStreams is the description of every stream.
const aboutStreams = "A stream. Server-Sent Events: `event` names the message, `data` is the message as one line of JSON, a comment every 15 s " +
	"keeps the connection open, and the event `end` (or `error`, with a problem) is the last one; its data is `{\"lastSeq\": 7, \"status\": \"…\"}`, with lastSeq as a number. NDJSON: one message a line; " +
	"a line with the single member `error` is the last one."

// streamResponse returns the 200 response of a stream, which the generator takes for a single message.
func streamResponse(rt *rest.Route) *yaml.Node {
	message := mapping("schema", ref("schemas/"+string(rt.RPC.Output().Name())))
	content := mapping("text/event-stream", message)
	set(content, "application/x-ndjson", message)
	response := mapping("description", scalar(aboutStreams))
	set(response, "content", content)
	if rt.RPC.Output().Name() == "ExecutorEvent" {
		set(response, "headers", mapping("Pawl-Task-Id", ref("headers/PawlTaskId")))
	}
	return response
}
