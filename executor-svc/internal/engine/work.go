package engine

// job is something that a goroutine does for a task. It returns what that goroutine does next; nil where it has nothing.
type job func() job

// work does one job after the other, until the owner leaves: a stack that has grown for one call need not grow for the next.
func (o *owner) work(do job) {
	for do != nil {
		if do = do(); do == nil {
			do = <-o.more
		}
	}
}

// lend has another goroutine do a job: one that has none, or a new one.
func (o *owner) lend(do job) {
	select {
	case o.more <- do:
	default:
		go o.work(do)
	}
}

// keep has the goroutine that is at work do a job when it has nothing else to do: nothing is handed over.
func (o *owner) keep(do job) {
	o.lendNext()
	o.next = do
}

// lendNext has another goroutine do what was kept.
func (o *owner) lendNext() {
	if o.next != nil {
		o.lend(o.next)
		o.next = nil
	}
}

// put brings something, and has somebody go on with it.
func (o *owner) put(i item) {
	o.in.add(i)
	o.wake()
}

// poke has the inbox looked into, and whether the owner is to leave.
func (o *owner) poke() {
	o.in.poke()
	o.wake()
}

func (o *owner) wake() {
	if o.in.enter() {
		o.lend(o.onward)
	}
}
