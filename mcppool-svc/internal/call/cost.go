package call

import (
	"sync"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// cost is what the models cost that were asked during a call.
type cost struct {
	mu            sync.Mutex
	requests      int    // guarded by mu; those that were refused included
	answers       uint32 // guarded by mu
	input, output uint64 // guarded by mu; tokens
}

// begin counts a request, and returns which one it is.
func (c *cost) begin() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	return c.requests
}

func (c *cost) add(s Sampled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers++
	c.input += s.InputTokens
	c.output += s.OutputTokens
}

// any says whether a model was asked. One that has not answered yet may cost as much.
func (c *cost) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests > 0
}

// usage is the cost as the contract has it; nil where no model answered.
func (c *cost) usage() *commonv1.Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers == 0 {
		return nil
	}
	return &commonv1.Usage{InputTokens: c.input, OutputTokens: c.output, ModelCalls: c.answers}
}
