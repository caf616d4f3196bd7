package ledger

// ends are the finished calls in the order of their ends: a list that needs nothing but them.
type ends struct {
	first, last *Call
	n           int
}

func (e *ends) push(c *Call) {
	c.before, c.after = e.last, nil
	if e.last != nil {
		e.last.after = c
	} else {
		e.first = c
	}
	e.last = c
	e.n++
}

func (e *ends) remove(c *Call) {
	if c.before != nil {
		c.before.after = c.after
	} else {
		e.first = c.after
	}
	if c.after != nil {
		c.after.before = c.before
	} else {
		e.last = c.before
	}
	c.before, c.after = nil, nil
	e.n--
}
