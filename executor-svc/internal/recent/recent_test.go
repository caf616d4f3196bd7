package recent

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A cache keeps a value for Age, and at most Limit values.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Cache[int]{Age: time.Minute, Limit: 10}
		for i := range 12 {
			r.Put(fmt.Sprint(i), i)
			<-time.After(time.Second)
		}
		if got, ok := r.Get("11"); !ok || got != 11 || len(r.values) > 10 {
			t.Errorf("the newest of 12: %d, %v; %d are kept", got, ok, len(r.values))
		}
		<-time.After(time.Minute)
		if got, ok := r.Get("11"); ok {
			t.Errorf("after a minute: %d", got)
		}
	})
}
