package llm

// Money is an amount in units of 10⁻¹² US dollars, so that the price of a single token is an integer.
type Money int64

// Price is the price of a million tokens, in US dollars with at most six decimals.
type Price struct {
	Input       float64
	Output      float64
	CachedInput float64
	CacheWrite  float64
}

// perToken returns the exact price of one token.
func perToken(perMillion float64) Money { return Money(perMillion*1e6 + 0.5) }

// Cost returns the cost of u's tokens. A nil price makes the cost unknown.
func (p *Price) Cost(u Usage) (cost Money, known bool) {
	if p == nil {
		return 0, false
	}
	plain := u.Input - min(u.Input, u.CachedInput+u.CacheWrite)
	return Money(plain)*perToken(p.Input) + Money(u.CachedInput)*perToken(p.CachedInput) +
		Money(u.CacheWrite)*perToken(p.CacheWrite) + Money(u.Output)*perToken(p.Output), true
}

// Within reports whether each kind of token costs at most as much at p as at q. A nil q sets no limit; a nil p is an unknown price, which is within no limit.
func (p *Price) Within(q *Price) bool {
	return q == nil || p != nil && p.Input <= q.Input && p.Output <= q.Output && p.CachedInput <= q.CachedInput && p.CacheWrite <= q.CacheWrite
}

// Usage counts the tokens and the cost of requests to models. The zero value is no usage.
type Usage struct {
	Input       uint64 // tokens of prompts, the following two included
	CachedInput uint64 // tokens that the provider read from its cache
	CacheWrite  uint64 // tokens that the provider wrote to its cache at an extra price
	Output      uint64 // tokens of replies
	Requests    uint32 // sent to providers, failed and repeated ones included

	Cost       Money // of the tokens whose price is known
	Unpriced   bool  // some tokens have no known price
	Unreported bool  // a reply lacked its token counts
}

// Add returns the sum of u and v.
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
