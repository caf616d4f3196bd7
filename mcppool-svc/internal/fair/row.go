package fair

// row is a list of slots that needs nothing but them.
type row[T any] struct {
	first, last *Slot[T]
	n           int
}

func (r *row[T]) push(s *Slot[T]) {
	s.before, s.after = r.last, nil
	if r.last != nil {
		r.last.after = s
	} else {
		r.first = s
	}
	r.last = s
	r.n++
}

func (r *row[T]) remove(s *Slot[T]) {
	if s.before != nil {
		s.before.after = s.after
	} else {
		r.first = s.after
	}
	if s.after != nil {
		s.after.before = s.before
	} else {
		r.last = s.before
	}
	s.before, s.after = nil, nil
	r.n--
}
