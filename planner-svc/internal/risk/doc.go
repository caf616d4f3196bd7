// Package risk says how much is at stake in a call, without a model: the tool's floor, raised where the input names the
// deletion of much. It knows tools and inputs, no goal.
package risk
