// Package models is the operator's list of named language models: which there are, how each is reached, and within which bounds they are
// asked. It knows no task, and no protocol of a provider.
package models
