// Package openai serves the OpenAI API below /openai/v1: the list of models, and chat completions. It translates requests into calls of
// CompletionService, or of ExecutorService for models that are agents, and their messages back. Rights, budgets, tools and models are the services'; the
// package keeps nothing between requests.
package openai
