// Package prompt renders prompts from embedded templates, in English and Chinese: instructions, tasks, tools, steps and questions. Text from tools
// and other systems is fenced as data. It knows no model and decides nothing.
package prompt
