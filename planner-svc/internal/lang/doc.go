// Package lang decides in which of the two languages a person reads, and picks the matching wording. It knows no task,
// no tool and no model; code that writes for people has both wordings side by side.
package lang
