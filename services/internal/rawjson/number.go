package rawjson

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	maxNumberLen = 2000
	maxExponent  = 2000
)

// Computable refuses numbers that are cheap to write and dear to compute with exactly, such as 1e999999999.
func Computable(number string) error {
	if len(number) > maxNumberLen {
		return fmt.Errorf("a number has %d characters; the limit is %d", len(number), maxNumberLen)
	}
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return nil
	}
	exp, err := strconv.Atoi(number[i+1:])
	if err != nil || exp > maxExponent || exp < -maxExponent {
		return fmt.Errorf("the number %s has an exponent beyond ±%d", number, maxExponent)
	}
	return nil
}
