// Package llm says what a language model is here: it is asked with a conversation and answers with text, piece by piece. The
// adapters under it (openai, anthropic) speak the providers' protocols; what stands on it never sees their libraries. It knows
// neither tasks nor tools, nor who asks.
package llm
