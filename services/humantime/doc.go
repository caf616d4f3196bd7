// Package humantime writes durations as people do. It knows no clock.
package humantime
