package bolt

import "container/heap"

// indexed is a heap whose entries know their position, so that any of them can be moved or removed.
type indexed[T any] struct {
	entries []T
	less    func(a, b T) bool
	// index returns where an entry keeps its position, counted from 1; 0 means that it is not in the heap.
	index func(T) *int
}

func (h *indexed[T]) Len() int           { return len(h.entries) }
func (h *indexed[T]) Less(i, j int) bool { return h.less(h.entries[i], h.entries[j]) }

// Swap implements heap.Interface.
func (h *indexed[T]) Swap(i, j int) {
	h.entries[i], h.entries[j] = h.entries[j], h.entries[i]
	*h.index(h.entries[i]), *h.index(h.entries[j]) = i+1, j+1
}

// Push implements heap.Interface.
func (h *indexed[T]) Push(x any) {
	h.entries = append(h.entries, x.(T))
	*h.index(x.(T)) = len(h.entries)
}

// Pop implements heap.Interface.
func (h *indexed[T]) Pop() any {
	last := len(h.entries) - 1
	x := h.entries[last]
	var none T
	h.entries[last] = none
	h.entries = h.entries[:last]
	*h.index(x) = 0
	return x
}

// put adds an entry, or moves it to its new place if its order has changed.
func (h *indexed[T]) put(x T) {
	if i := *h.index(x); i != 0 {
		heap.Fix(h, i-1)
		return
	}
	heap.Push(h, x)
}

func (h *indexed[T]) remove(x T) {
	if i := *h.index(x); i != 0 {
		heap.Remove(h, i-1)
	}
}

// first returns the least entry.
func (h *indexed[T]) first() (x T, ok bool) {
	if len(h.entries) == 0 {
		return x, false
	}
	return h.entries[0], true
}
