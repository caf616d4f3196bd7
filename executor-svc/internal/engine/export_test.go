package engine

// Draining is closed when the engine stops.
func (e *Engine) Draining() <-chan struct{} { return e.draining }
