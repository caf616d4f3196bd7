package fair

import "container/heap"

// Shelf keeps values of users. It is not safe for concurrent use.
type Shelf[T any] struct {
	maxCount int
	maxBytes int64
	count    int
	bytes    int64
	holders  map[string]*holder[T]
	most     ranking[T] // who holds most is first
}

// Slot is where a value is. The zero value is none.
type Slot[T any] struct {
	Value         T
	size          int64
	holder        *holder[T]
	before, after *Slot[T] // in the holder's row
}

// Taken says whether the slot is on a shelf.
func (s *Slot[T]) Taken() bool { return s.holder != nil }

// holder is a user who has something on the shelf.
type holder[T any] struct {
	user  string
	items row[T] // the oldest first
	bytes int64
	share float64 // of the bound that it fills most
	rank  int     // in the ranking
}

// New makes a shelf for so many values of so many bytes in all.
func New[T any](maxCount int, maxBytes int64) *Shelf[T] {
	return &Shelf[T]{maxCount: maxCount, maxBytes: maxBytes, holders: make(map[string]*holder[T])}
}

// Add puts a value of a user's on the shelf. See Over.
func (s *Shelf[T]) Add(user string, size int64, v T) *Slot[T] {
	slot := new(Slot[T])
	s.AddAt(slot, user, size, v)
	return slot
}

// AddAt is Add for who has a slot for the value, which is not taken.
func (s *Shelf[T]) AddAt(slot *Slot[T], user string, size int64, v T) {
	h := s.holders[user]
	if h == nil {
		h = &holder[T]{user: user}
		s.holders[user] = h
		heap.Push(&s.most, h)
	}
	slot.Value, slot.size, slot.holder = v, size, h
	h.items.push(slot)
	s.weigh(h, 1, size)
}

// Remove takes a value off the shelf. Call it once for each.
func (s *Shelf[T]) Remove(slot *Slot[T]) {
	h := slot.holder
	h.items.remove(slot)
	slot.holder = nil
	s.weigh(h, -1, -slot.size)
	if h.items.n == 0 {
		heap.Remove(&s.most, h.rank)
		delete(s.holders, h.user)
	}
}

// Renew makes a value the user's newest one.
func (s *Shelf[T]) Renew(slot *Slot[T]) {
	slot.holder.items.remove(slot)
	slot.holder.items.push(slot)
}

// Over returns a value that has to be removed, as long as there is more than the bounds allow.
func (s *Shelf[T]) Over() (*Slot[T], bool) {
	if s.count <= s.maxCount && s.bytes <= s.maxBytes || len(s.most) == 0 {
		return nil, false
	}
	return s.most[0].items.first, true
}

// Len is how many values there are.
func (s *Shelf[T]) Len() int { return s.count }

// Bytes is their size.
func (s *Shelf[T]) Bytes() int64 { return s.bytes }

func (s *Shelf[T]) weigh(h *holder[T], n int, size int64) {
	s.count += n
	s.bytes += size
	h.bytes += size
	h.share = max(float64(h.items.n)/float64(max(s.maxCount, 1)), float64(h.bytes)/float64(max(s.maxBytes, 1)))
	heap.Fix(&s.most, h.rank)
}

// ranking is a heap.
type ranking[T any] []*holder[T]

func (r ranking[T]) Len() int           { return len(r) }
func (r ranking[T]) Less(i, j int) bool { return r[i].share > r[j].share }

func (r ranking[T]) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].rank, r[j].rank = i, j
}

// Push implements heap.Interface.
func (r *ranking[T]) Push(x any) {
	h, _ := x.(*holder[T])
	h.rank = len(*r)
	*r = append(*r, h)
}

// Pop implements heap.Interface.
func (r *ranking[T]) Pop() any {
	last := len(*r) - 1
	h := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return h
}
