package pin

// Review says which tools of a catalog wait for an approval. A nil one holds nothing.
type Review struct{ held map[string]bool }

// Holds reports whether a tool waits.
func (r *Review) Holds(name string) bool { return r != nil && r.held[name] }

// Held is how many wait.
func (r *Review) Held() int {
	if r == nil {
		return 0
	}
	return len(r.held)
}
