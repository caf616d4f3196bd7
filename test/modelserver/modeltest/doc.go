// Package modeltest is a scripted language model: it serves OpenAI's chat completions and Anthropic's messages with the answers of a script,
// and rejects requests that the providers would reject.
package modeltest
