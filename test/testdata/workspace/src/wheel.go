package clockwork

// Wheel turns.
type Wheel struct{ Teeth int }
