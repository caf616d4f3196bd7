package fair

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// drop removes what has to go and returns it.
func drop(s *Shelf[string]) (gone []string) {
	for slot, over := s.Over(); over; slot, over = s.Over() {
		gone = append(gone, slot.Value)
		s.Remove(slot)
	}
	return gone
}

func TestWhoHoldsMostLosesTheOldest(t *testing.T) {
	s := New[string](4, 1000)
	s.Add("bob", 1, "b1")
	for i := range 5 {
		s.Add("ann", 1, "a"+strconv.Itoa(i))
	}
	if got := drop(s); !slices.Equal(got, []string{"a0", "a1"}) || s.Len() != 4 {
		t.Errorf("by number: %v", got)
	}
	s.Remove(s.Add("ann", 1, "gone"))
	s.Add("cat", 999, "c1")
	if got := drop(s); !slices.Equal(got, []string{"c1"}) || s.Bytes() != 4 {
		t.Errorf("by bytes: %v", got)
	}
}

func TestRenewed(t *testing.T) {
	s := New[string](2, 1000)
	first := s.Add("ann", 1, "a1")
	s.Add("ann", 1, "a2")
	s.Renew(first)
	s.Add("ann", 1, "a3")
	if got := drop(s); !slices.Equal(got, []string{"a2"}) {
		t.Errorf("got %v", got)
	}
}

// Whatever is added and removed, sums and ranking are those of a simple count, and the bounds hold.
func TestAgainstASimpleCount(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := New[string](50, 2000)
	var slots []*Slot[string]
	for range 5000 {
		if len(slots) > 0 && r.IntN(3) == 0 {
			i := r.IntN(len(slots))
			s.Remove(slots[i])
			slots = slices.Delete(slots, i, i+1)
		} else {
			slots = append(slots, s.Add("u"+strconv.Itoa(r.IntN(8)), int64(r.IntN(100)), ""))
		}
		for slot, over := s.Over(); over; slot, over = s.Over() {
			if most := biggest(slots); slot.holder.share < most {
				t.Fatalf("a holder of %v loses while one has %v", slot.holder.share, most)
			}
			s.Remove(slot)
			slots = slices.DeleteFunc(slots, func(o *Slot[string]) bool { return o == slot })
		}
		var bytes int64
		for _, slot := range slots {
			bytes += slot.size
		}
		if s.Len() != len(slots) || s.Bytes() != bytes || s.Len() > 50 || s.Bytes() > 2000 {
			t.Fatalf("%d values of %d bytes, want %d of %d", s.Len(), s.Bytes(), len(slots), bytes)
		}
	}
}

func biggest(slots []*Slot[string]) float64 {
	counts, bytes, most := map[string]int{}, map[string]int64{}, 0.0
	for _, slot := range slots {
		counts[slot.holder.user]++
		bytes[slot.holder.user] += slot.size
		most = max(most, float64(counts[slot.holder.user])/50, float64(bytes[slot.holder.user])/2000)
	}
	return most
}
