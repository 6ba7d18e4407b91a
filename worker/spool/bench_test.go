package spool_test

import (
	"fmt"
	"sync/atomic"
	"testing"
)

func BenchmarkSpool_Put(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			s := open(b, b.TempDir())
			data := make([]byte, size)
			for i := 0; b.Loop(); i++ {
				put(b, s, fmt.Sprint("k", i%100), data)
			}
		})
	}
	b.Run("Parallel8", func(b *testing.B) {
		s := open(b, b.TempDir())
		var n atomic.Int64
		data := make([]byte, 1<<10)
		b.SetParallelism(4)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				put(b, s, fmt.Sprint("k", n.Add(1)%100), data)
			}
		})
	})
}

func BenchmarkSpool_Check(b *testing.B) {
	s := open(b, b.TempDir())
	for b.Loop() {
		if err := s.Check(); err != nil {
			b.Fatal(err)
		}
	}
}
