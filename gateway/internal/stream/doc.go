// Package stream serves every streaming RPC over HTTP with one handler: as Server-Sent Events if the client accepts
// them, else as NDJSON. It keeps connections open, resumes streams, and marks their ends and failures, so that a plain EventSource or a
// line reader can follow them. The pieces of a document are sent as one response. The package knows only these parts of messages:
// type, number and task of an event, the last status, after_seq of a request, and the id in the file name of a document.
package stream
