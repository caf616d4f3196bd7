// Package catalog looks at the tools that a task may use: their schemas, properties and risk floors. It knows nothing of goals and calls nothing.
package catalog
