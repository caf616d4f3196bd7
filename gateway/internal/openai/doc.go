// Package openai serves the OpenAI API below /openai/v1: the list of models, chat completions, and responses. It translates requests into calls of
// CompletionService, or of ExecutorService for agents and responses in the background, and their messages back. Rights, budgets, tools and models are the
// services'; the package keeps nothing between requests: a response that can be read later is a part of a task's events.
package openai
