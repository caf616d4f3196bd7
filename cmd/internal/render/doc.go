// Package render turns tasks, events, steps and lists into text for people: a stream of events as lines with a mark and
// a time, tables that fit the terminal, and JSON in a stable form. What comes from tools and models is made harmless
// before it reaches a terminal. It makes no calls and asks no questions.
package render
