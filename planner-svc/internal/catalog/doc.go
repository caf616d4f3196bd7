// Package catalog looks at the tools that a task may use: their properties and what these are for, the words that describe
// them, and which tool is meant by a name. It knows nothing of goals and calls nothing.
package catalog
