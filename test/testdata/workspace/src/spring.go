package clockwork

// Spring drives a Wheel past the ratchet.
type Spring struct{ Force float64 }
