// Package lang decides in which of the two languages a person reads, and picks the matching wording. It knows no task,
// no tool and no model; whoever writes for people writes both wordings side by side.
package lang
