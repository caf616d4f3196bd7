// Package prompt renders what a language model reads, in the task's language: first what stays the same for a whole task
// (who the model is, the rules, the tools), then the goal, then one turn per step, at last what is asked now. So each
// prompt of a task begins with the one before, and providers' caches hit. What tools said is fenced as data.
package prompt
