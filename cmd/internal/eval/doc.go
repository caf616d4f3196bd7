// Package eval measures a model's planning: it gives the planner goals with their tools and compares the planned steps with the expected
// ones. It does not call tools; the cases contain their outputs.
package eval
