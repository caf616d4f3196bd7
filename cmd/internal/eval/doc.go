// Package eval measures how well a model plans: it gives the planner goals with their tools and compares the planned steps with the expected
// steps. It calls no tools; the cases contain their outputs.
package eval
