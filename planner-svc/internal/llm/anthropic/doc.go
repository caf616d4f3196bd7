// Package anthropic implements models over Anthropic's messages.
package anthropic
