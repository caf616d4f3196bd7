package llm

// Money is an amount in units of 10⁻¹² US dollars, in which the price of a single token is an integer.
type Money int64

// Dollar is one US dollar.
const Dollar Money = 1e12

// USD returns the amount in US dollars.
func (m Money) USD() float64 { return float64(m) / float64(Dollar) }

// Price is what a million tokens cost, in US dollars.
type Price struct {
	Input, Output float64
	CachedInput   *float64 // nil: like Input
	CacheWrite    *float64 // nil: like Input
}

// perToken returns the exact price of one token. Prices have at most six decimals of a dollar.
func perToken(perMillion float64) Money { return Money(perMillion*1e6 + 0.5) }

// Cost returns what the tokens of u cost. A nil price makes the cost unknown.
func (p *Price) Cost(u Usage) (cost Money, known bool) {
	if p == nil {
		return 0, false
	}
	cached, write := p.Input, p.Input
	if p.CachedInput != nil {
		cached = *p.CachedInput
	}
	if p.CacheWrite != nil {
		write = *p.CacheWrite
	}
	plain := u.Input - min(u.Input, u.CachedInput+u.CacheWrite)
	return Money(plain)*perToken(p.Input) + Money(u.CachedInput)*perToken(cached) + Money(u.CacheWrite)*perToken(write) +
		Money(u.Output)*perToken(p.Output), true
}

// Usage is what requests to models cost. The zero value is no usage.
type Usage struct {
	Input       uint64 // tokens of prompts, the following two included
	CachedInput uint64 // tokens that the provider read from its cache
	CacheWrite  uint64 // tokens that the provider wrote to its cache at an extra price
	Output      uint64 // tokens of replies
	Requests    uint32 // sent to providers, failed and repeated ones included

	Cost       Money // of the tokens whose price is known
	Unpriced   bool  // some tokens have no known price
	Unreported bool  // some reply came without its token counts, or was cut off before them
}

// Add returns the sum of both.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, CachedInput: u.CachedInput + v.CachedInput, CacheWrite: u.CacheWrite + v.CacheWrite,
		Output: u.Output + v.Output, Requests: u.Requests + v.Requests,
		Cost: u.Cost + v.Cost, Unpriced: u.Unpriced || v.Unpriced, Unreported: u.Unreported || v.Unreported,
	}
}

// PricedBy returns u with the cost of its tokens.
func (u Usage) PricedBy(p *Price) Usage {
	cost, known := p.Cost(u)
	u.Cost, u.Unpriced = cost, !known && u.Input+u.Output > 0
	return u
}

// ExactCost returns the cost of everything counted in u, and whether it is known.
func (u Usage) ExactCost() (Money, bool) { return u.Cost, !u.Unpriced && !u.Unreported }
