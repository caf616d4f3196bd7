package main

import (
	"slices"
	"time"
)

// percentile is the value at a fraction of sorted values, by nearest rank; 0 where there are none.
func percentile(sorted []time.Duration, fraction float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(fraction*float64(len(sorted))), len(sorted)-1)]
}

// quantiles sorts the values and returns p50 and p99 in milliseconds.
func quantiles(values []time.Duration) (p50, p99 float64) {
	slices.Sort(values)
	return milliseconds(percentile(values, 0.50)), milliseconds(percentile(values, 0.99))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// median of values; 0 where there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}
