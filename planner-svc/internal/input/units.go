package input

import (
	"strconv"
	"strings"

	"pawl.dev/planner-svc/internal/rank"
)

// unit is a unit of measurement; n of it are (n - offset) * factor of the dimension's first unit.
type unit struct {
	dimension      string
	factor, offset float64
}

// unitOf returns the unit of a name.
func unitOf(name string) (u unit, ok bool) {
	f := strings.Split(rank.Key("unit", name), ":")
	if len(f) < 2 {
		return u, false
	}
	u.dimension, u.factor = f[0], number(f[1])
	if len(f) > 2 {
		u.offset = number(f[2])
	}
	return u, true
}

// rounded keeps seven digits of a computed number.
func rounded(n float64) float64 {
	if n == float64(int64(n)) {
		return n
	}
	return number(strconv.FormatFloat(n, 'g', 7, 64))
}

// number reads a number of the lexicon, or one that was found to be one; 0 for anything else.
func number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return n
}
