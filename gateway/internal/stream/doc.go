// Package stream serves every streaming RPC over HTTP with one handler: as Server-Sent Events if the client accepts
// them, else as NDJSON. It keeps the connection open, resumes, ends and fails streams so that a plain EventSource or a
// line reader can follow them. It sends a document that comes in pieces as it is. Of the messages it knows only the event's
// type and number, the last status, and the file name of a document.
package stream
