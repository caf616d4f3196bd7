package bolt_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// newTopics creates topics with 20 users and an agent each, from several goroutines because each creation waits for the disk.
func newTopics(t testing.TB, s *bolt.Store, n int) (ids []string) {
	t.Helper()
	participants := []string{"ann", "@x"}
	for i := range 19 {
		participants = append(participants, fmt.Sprint("user ", i))
	}
	ids = make([]string, n)
	sideBySide(n, func(i int) {
		ids[i] = uuid.Must(uuid.NewV7()).String()
		if _, _, err := s.CreateTopic(context.Background(), ids[i], journaltest.NewTopic(participants...), nil, 0); err != nil {
			t.Error(err)
		}
	})
	return ids
}

// BenchmarkPost measures posts to 1000 topics with 21 participants, with their dispatch.
func BenchmarkPost(b *testing.B) {
	for _, posters := range []int{1, 32} {
		b.Run(fmt.Sprintf("posters=%d", posters), func(b *testing.B) {
			s, err := bolt.Open(filepath.Join(b.TempDir(), "journal.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			topics := newTopics(b, s, 1000)
			var n atomic.Int64
			began, cpu := time.Now(), cpuTime(b)
			b.SetParallelism(max(posters/runtime.GOMAXPROCS(0), 1))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := n.Add(1)
					p := journal.Post{
						TopicID: topics[int(i)%len(topics)], Now: began.Add(time.Duration(i)),
						Facts: []*storagev1.TopicFact{journaltest.Message(fmt.Sprint(i), "How many Go files are there in the folder?")},
					}
					if _, posted, err := s.Post(context.Background(), p); err != nil || !posted {
						b.Errorf("%v, %v", posted, err)
					}
				}
			})
			b.ReportMetric(float64(n.Load())/time.Since(began).Seconds(), "posts/s")
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(n.Load()), "cpu-µs/post")
		})
	}
}

// A topic in which nothing happens is in the file only: memory grows by what bbolt keeps of free pages.
func TestIdleTopics(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "journal.db"))
	newTopics(t, s, 300) // what the journal itself takes
	heap := func() int64 {
		if err := s.Apply(); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	const topics = 700
	newTopics(t, s, topics)
	grown := (heap() - before) / topics
	t.Logf("%d bytes per topic", grown)
	if grown > 1024 {
		t.Errorf("%d bytes per idle topic", grown)
	}
}
