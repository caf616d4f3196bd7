package fair

import (
	"container/heap"
	"container/list"
)

// Shelf keeps values of users. It is not safe for concurrent use.
type Shelf[T any] struct {
	maxCount int
	maxBytes int64
	count    int
	bytes    int64
	holders  map[string]*holder
	most     ranking // who holds most is first
}

// Slot is where a value is.
type Slot[T any] struct {
	Value  T
	size   int64
	holder *holder
	place  *list.Element
}

// holder is a user who has something on the shelf.
type holder struct {
	user  string
	items *list.List // of *Slot, the oldest in front
	bytes int64
	share float64 // of the bound that it fills most
	rank  int     // in the ranking
}

// New makes a shelf for so many values of so many bytes in all.
func New[T any](maxCount int, maxBytes int64) *Shelf[T] {
	return &Shelf[T]{maxCount: maxCount, maxBytes: maxBytes, holders: make(map[string]*holder)}
}

// Add puts a value of a user's on the shelf. See Over.
func (s *Shelf[T]) Add(user string, size int64, v T) *Slot[T] {
	h := s.holders[user]
	if h == nil {
		h = &holder{user: user, items: list.New()}
		s.holders[user] = h
		heap.Push(&s.most, h)
	}
	slot := &Slot[T]{Value: v, size: size, holder: h}
	slot.place = h.items.PushBack(slot)
	s.weigh(h, 1, size)
	return slot
}

// Remove takes a value off the shelf. Call it once for each.
func (s *Shelf[T]) Remove(slot *Slot[T]) {
	h := slot.holder
	h.items.Remove(slot.place)
	s.weigh(h, -1, -slot.size)
	if h.items.Len() == 0 {
		heap.Remove(&s.most, h.rank)
		delete(s.holders, h.user)
	}
}

// Renew makes a value the user's newest one.
func (s *Shelf[T]) Renew(slot *Slot[T]) { slot.holder.items.MoveToBack(slot.place) }

// Over returns a value that has to be removed, as long as there is more than the bounds allow.
func (s *Shelf[T]) Over() (*Slot[T], bool) {
	if s.count <= s.maxCount && s.bytes <= s.maxBytes || len(s.most) == 0 {
		return nil, false
	}
	slot, ok := s.most[0].items.Front().Value.(*Slot[T])
	return slot, ok
}

// Len is how many values there are.
func (s *Shelf[T]) Len() int { return s.count }

// Bytes is their size.
func (s *Shelf[T]) Bytes() int64 { return s.bytes }

func (s *Shelf[T]) weigh(h *holder, n int, size int64) {
	s.count += n
	s.bytes += size
	h.bytes += size
	h.share = max(float64(h.items.Len())/float64(max(s.maxCount, 1)), float64(h.bytes)/float64(max(s.maxBytes, 1)))
	heap.Fix(&s.most, h.rank)
}

// ranking is a heap.
type ranking []*holder

func (r ranking) Len() int           { return len(r) }
func (r ranking) Less(i, j int) bool { return r[i].share > r[j].share }

func (r ranking) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].rank, r[j].rank = i, j
}

// Push implements heap.Interface.
func (r *ranking) Push(x any) {
	h, _ := x.(*holder)
	h.rank = len(*r)
	*r = append(*r, h)
}

// Pop implements heap.Interface.
func (r *ranking) Pop() any {
	last := len(*r) - 1
	h := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return h
}
