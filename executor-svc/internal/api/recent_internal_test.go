package api

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// recent keeps an answer for age, and at most limit answers.
func TestRecentAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recent[int]{age: time.Minute, limit: 10}
		for i := range 12 {
			r.put(fmt.Sprint(i), i)
			<-time.After(time.Second)
		}
		if got, ok := r.get("11"); !ok || got != 11 || len(r.answers) > 10 {
			t.Errorf("the newest of 12: %d, %v; %d are kept", got, ok, len(r.answers))
		}
		<-time.After(time.Minute)
		if got, ok := r.get("11"); ok {
			t.Errorf("after a minute: %d", got)
		}
	})
}
