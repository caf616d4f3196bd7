package process

// Limits bound each process of a child's group; 0: as the pool's own.
type Limits struct {
	Memory uint64 // bytes that it can write to, beside what it shares
	Files  uint64 // open files, sockets and pipes
}

// None reports whether there are no limits.
func (l Limits) None() bool { return l == Limits{} }
