// Package openai asks models over OpenAI's chat completions, which many providers and programs speak at an address of their own: vLLM,
// Ollama, DeepSeek, Qwen, Gemini's compatible endpoint and others. It knows the wire and nothing of who asks.
package openai
