package extract

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

var (
	//go:embed units.txt
	unitsText string
	//go:embed codes.txt
	codesText string
	//go:embed kinds.txt
	kindsText string
)

// unit is a unit of measurement.
type unit struct {
	name      string
	dimension string
	factor    float64
}

var units = sync.OnceValue(func() map[string]unit {
	m := map[string]unit{}
	for _, fields := range table(unitsText) {
		factor, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			panic(err) // units.txt is part of the program
		}
		for _, name := range fields[2:] {
			m[name] = unit{name: fields[2], dimension: fields[0], factor: factor}
		}
	}
	return m
})

// codes and kinds map words to ISO codes and to globs.
var (
	codes = sync.OnceValue(func() map[string]string { return firsts(codesText) })
	kinds = sync.OnceValue(func() map[string]string { return firsts(kindsText) })
)

func firsts(text string) map[string]string {
	m := map[string]string{}
	for _, fields := range table(text) {
		for _, word := range fields[1:] {
			m[word] = fields[0]
		}
	}
	return m
}

// table returns the fields of each line that is no comment.
func table(text string) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] != "#" {
			out = append(out, fields)
		}
	}
	return out
}

// convert changes a number from a unit into another of the same dimension; false if they have different ones.
func convert(n float64, from, to unit) (float64, bool) {
	switch {
	case from.dimension != to.dimension || from.dimension == "money" && from.name != to.name:
		return 0, false
	case from.dimension != "temperature" || from.name == to.name:
		return n * from.factor / to.factor, true
	}
	toCelsius := map[string]func(float64) float64{"celsius": func(x float64) float64 { return x }, "kelvin": func(x float64) float64 { return x - 273.15 },
		"fahrenheit": func(x float64) float64 { return (x - 32) / 1.8 }}
	fromCelsius := map[string]func(float64) float64{"celsius": func(x float64) float64 { return x }, "kelvin": func(x float64) float64 { return x + 273.15 },
		"fahrenheit": func(x float64) float64 { return x*1.8 + 32 }}
	return fromCelsius[to.name](toCelsius[from.name](n)), true
}
