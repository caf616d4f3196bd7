// Package llm defines language models: requests, replies, usage and errors, independent of any provider. The packages under it
// speak the providers' protocols. It knows neither tasks nor MCP.
package llm
