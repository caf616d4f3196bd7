// Package span says how long something takes or took as a person would say it. It knows no clock.
package span
