package ledger

import "encoding/binary"

const (
	// filterBits is how many bits there are for each tombstone that is kept: ten times as many that are not fit in before
	// one id in forty is taken for one of them.
	filterBits = 80
	probes     = 4
)

// filter remembers in constant space which ids were forgotten (B. H. Bloom, "Space/time trade-offs in hash coding with
// allowable errors", 1970): what it does not hold was never put in. Its keys are hashes already.
type filter struct {
	words uint64
	bits  []uint64 // nil until the first is added
}

func newFilter(tombstones int) *filter {
	return &filter{words: uint64(tombstones)*filterBits/64 + 1}
}

func (f *filter) add(k key) {
	if f.bits == nil {
		f.bits = make([]uint64, f.words)
	}
	for i := range probes {
		word, bit := f.at(k, i)
		f.bits[word] |= bit
	}
}

// has may say yes of a key that was never added; never no of one that was.
func (f *filter) has(k key) bool {
	if f.bits == nil {
		return false
	}
	for i := range probes {
		if word, bit := f.at(k, i); f.bits[word]&bit == 0 {
			return false
		}
	}
	return true
}

// at derives the probes from two halves of the key (A. Kirsch, M. Mitzenmacher, "Less hashing, same performance", 2006).
func (f *filter) at(k key, i int) (word uint64, bit uint64) {
	a, b := binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:])|1
	n := (a + uint64(i)*b) % (f.words * 64)
	return n / 64, 1 << (n % 64)
}
