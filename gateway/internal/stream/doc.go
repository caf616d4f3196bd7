// Package stream serves streaming RPCs over HTTP with one handler: as Server-Sent Events if the client accepts
// them, else as NDJSON. It keeps connections open, resumes streams, and marks their ends and failures, so that a plain EventSource or a
// line reader can follow them. The pieces of a document are sent as one response. Of messages the package
// knows only what framing, resuming and headers need, such as the number of an event and after_seq of a request.
package stream
