// Package eval measures a model's planning: it gives the planner goals with their tools and compares the steps that it plans with the
// expected ones. Tools are not called: cases say what they return.
package eval
