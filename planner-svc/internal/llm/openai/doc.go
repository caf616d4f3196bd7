// Package openai implements models over OpenAI's chat completions, which many providers and programs offer at their own address: vLLM,
// Ollama, DeepSeek, Qwen, Gemini's compatible endpoint and others.
package openai
