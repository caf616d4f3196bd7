// Package anthropic asks models over Anthropic's messages. It knows the wire and nothing of who asks.
package anthropic
