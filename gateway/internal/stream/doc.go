// Package stream serves every streaming RPC over HTTP with one handler: as Server-Sent Events where the client accepts
// them, else as NDJSON. It keeps the connection open, resumes, ends and fails streams so that a plain EventSource or a
// line reader can follow them. A document that comes in pieces it sends as it is. Of the messages it knows only what
// frames them: how an event is called, its number, the status that the last one told, and what file a document makes.
package stream
